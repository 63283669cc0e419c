#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pvreport.py DIR... : one line per test (ok / skipped reason / FAIL / ERROR) from pyverbs-suite.sh's logs; totals last."""
import sys, re, glob, os, collections
for d in sys.argv[1:]:
    tests = [l.strip() for l in open(d + '/list') if '.test_' in l]
    res = {}
    for f in sorted(glob.glob(d + '/test_*.log')):
        cur = None; cls = os.path.basename(f)[:-4]
        for l in open(f, errors='replace'):
            m = re.match(r'^(test_\w+) \((tests\.\S+)\)', l)
            if m: cur = m.group(2) if m.group(2).endswith(m.group(1)) else m.group(2) + '.' + m.group(1); res.setdefault(cur, 'NO RESULT (hang/crash)')
            m = re.search(r"\.\.\. (?:.*?)(ok|FAIL|ERROR|skipped .*|expected failure)\s*$", l)
            if m and cur: res[cur] = m.group(1); cur = None
            elif cur and re.match(r'^(ok|FAIL|ERROR|skipped .*)$', l.strip()): res[cur] = l.strip(); cur = None
    print(f'### {d}')
    c = collections.Counter()
    for t in tests:
        r = res.get(t) or next((v for k, v in res.items() if k.endswith(t)), 'NOT RUN'); c[r.split()[0]] += 1
        print(f'{t}: {r}')
    print('TOTAL', len(tests), dict(c))
