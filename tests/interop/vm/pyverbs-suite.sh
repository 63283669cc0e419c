# Run inside the VM: rdma-core's python tests, one process per test class (so a hang costs one class only).
# SPDX-License-Identifier: BSD-2-Clause
# Output /host/pv/CLASS.log ; list in /host/pv/list
mkdir -p /host/pv /tmp/t; [ -d /tmp/t/tests ] || { cp -r /usr/share/doc/rdma-core/tests /tmp/t/; gunzip /tmp/t/tests/*.gz; }
cd /tmp/t
python3 tests/run_tests.py --dev rxe0 --list-tests > /host/pv/list 2>/host/pv/list.err
sed 's/.*tests\.\(test_[a-z0-9_]*\.[A-Za-z0-9_]*\)\..*/\1/' /host/pv/list | grep ^test_ | sort -u > /host/pv/classes
for c in $(cat /host/pv/classes); do
  [ -e /host/pv/$c.done ] && continue
  s=$(date +%s); timeout -k 5 ${TMO:-240} python3 -u tests/run_tests.py --dev rxe0 ${GIDARG:-} -v $c > /host/pv/$c.log 2>&1 < /dev/null; r=$?
  echo "rc=$r secs=$(( $(date +%s)-s ))" > /host/pv/$c.done
done
dmesg > /host/pv/dmesg.txt
