#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""cmpcap.py DIR1 DIR2: compare same-named pcaps after removing run-dependent fields (IP ID, ports, addresses, QPNs, keys, times)."""
import sys, os, re, subprocess, glob
def norm(f):
    o = subprocess.run([sys.executable, os.path.dirname(__file__) + '/rocedump.py', f], capture_output=True, text=True).stdout
    r = []
    for l in o.split('\n'):
        if '|' not in l or 'MAD base' in l: continue
        l = re.sub(r'^ *[\d.]+ ', '', l); l = re.sub(r'id=\S+|sport=\d+|csum=\S+|dqp=\S+|sqp=\S+|va=\S+|rkey=\S+|ieth=\S+', '', l); r.append(re.sub(r' +', ' ', l))
    return r
for f in sorted(glob.glob(sys.argv[1] + '/*.pcap')):
    g = sys.argv[2] + '/' + os.path.basename(f)
    if not os.path.exists(g): continue
    # A: per-direction sequences (interleaving depends on timing)
    d = lambda s: {k: [x for x in s if x.startswith(k)] for k in {x.split(' ')[0] for x in s}}
    a, b = d(norm(f)), d(norm(g))
    if a == b: print('same     ', os.path.basename(f))
    else:
        print('DIFFERENT', os.path.basename(f))
        for k in sorted(set(a) | set(b)):
            x, y = a.get(k, []), b.get(k, [])
            if x != y:
                i = next((i for i in range(min(len(x), len(y))) if x[i] != y[i]), min(len(x), len(y)))
                print('     1:', len(x), x[i] if i < len(x) else '-'); print('     2:', len(y), y[i] if i < len(y) else '-')
