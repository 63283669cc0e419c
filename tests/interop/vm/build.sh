#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# build.sh - build the rxe reference VM (kernel + tiny initrd + ext4 root) from
# Debian packages, taken from this machine's own apt sources.  Nothing is installed on the
# host except (if missing) qemu, mmdebstrap, and tcpdump for captures.   Output: $IMG/{vmlinuz,initrd.img,rootfs.ext4}
#   WORK=~/.cache/rxe-vm  IMG=$WORK/img  EXTRA_PKGS="gcc ..."  SIZE=1800M
#   REUSE=1            keep $WORK/root from the last build, only replace kernel + init and repack
set -euo pipefail
[ "$(uname -m)" = x86_64 ] || { echo "build.sh: the VM runs programs of this machine, which has to be an x86-64 one" >&2; exit 1; }
KIT=$(cd "$(dirname "$0")" && pwd)
WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/rxe-vm}; mkdir -p "$WORK"
IMG=${IMG:-$WORK/img}
SIZE=${SIZE:-1800M}
SOURCES=(); for f in /etc/apt/sources.list /etc/apt/sources.list.d/*; do [ -s "$f" ] && grep -q "^[^#]" "$f" && SOURCES+=("$f"); done
PKGS=rdma-core,ibverbs-utils,rdmacm-utils,ibverbs-providers,librdmacm1,infiniband-diags,perftest,python3-pyverbs,python3,iproute2,ethtool,tcpdump,kmod,udev,qperf,iperf3,iptables,nftables,procps,iputils-ping,strace,busybox-static,e2fsprogs,netcat-openbsd,socat
[ -n "${EXTRA_PKGS:-}" ] && PKGS=$PKGS,${EXTRA_PKGS// /,}

apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt-get update
need=()
command -v qemu-system-x86_64 >/dev/null || need+=(qemu-system-x86)
command -v mmdebstrap >/dev/null || need+=(mmdebstrap)
command -v mke2fs >/dev/null || need+=(e2fsprogs)
command -v cpio >/dev/null || need+=(cpio)
command -v tcpdump >/dev/null || need+=(tcpdump)
if [ ${#need[@]} -gt 0 ]; then
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${need[@]}"
fi
mkdir -p "$IMG" "$WORK/debs"; chmod 755 "$WORK" "$IMG"

# 1. kernel image package, unpacked (never installed)
KPKG=${KPKG:-$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/{print $2; exit}')}
rm -rf "$WORK/kroot"; mkdir "$WORK/kroot"
( cd "$WORK/debs"; ls $KPKG'_'*.deb >/dev/null 2>&1 || apt-get download "$KPKG" )
dpkg-deb -x "$WORK"/debs/"$KPKG"_*.deb "$WORK/kroot"
KVER=$(ls "$WORK/kroot/lib/modules" 2>/dev/null || ls "$WORK/kroot/usr/lib/modules")
cp "$WORK/kroot/boot/vmlinuz-$KVER" "$IMG/vmlinuz"
cp "$WORK/kroot/boot/config-$KVER" "$IMG/config"
M="$WORK/kroot/lib/modules/$KVER"; [ -d "$M" ] || M="$WORK/kroot/usr/lib/modules/$KVER"

# 2. root file system
ROOT="$WORK/root"
if [ -z "${REUSE:-}" ]; then   # REUSE=1: keep the unpacked root file system, only repack
rm -rf "$ROOT"
mmdebstrap --mode=root --variant=minbase --include="$PKGS" \
  --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' \
  bookworm "$ROOT" "${SOURCES[@]}"
fi
# kernel modules (only the families that can matter)
rm -rf "$ROOT"/usr/lib/modules/*; D="$ROOT/usr/lib/modules/$KVER"; mkdir -p "$D"
for d in kernel/drivers/infiniband/core kernel/drivers/infiniband/sw kernel/drivers/infiniband/ulp \
         kernel/drivers/net/virtio_net.ko kernel/drivers/net/net_failover.ko kernel/drivers/net/dummy.ko \
         kernel/drivers/net/veth.ko kernel/drivers/net/tun.ko kernel/drivers/net/ifb.ko kernel/drivers/net/macvlan.ko \
         kernel/drivers/net/vxlan kernel/drivers/net/ethernet/intel/e1000 \
         kernel/drivers/block/virtio_blk.ko kernel/drivers/virtio kernel/drivers/char/virtio_console.ko \
         kernel/drivers/char/hw_random kernel/drivers/vhost \
         kernel/fs/ext4 kernel/fs/jbd2 kernel/fs/mbcache.ko kernel/fs/9p kernel/fs/netfs kernel/fs/fscache kernel/fs/configfs \
         kernel/net kernel/lib kernel/crypto kernel/arch/x86/crypto ; do
  [ -e "$M/$d" ] || { [ -e "$M/$d.xz" ] && d=$d.xz; }
  [ -e "$M/$d" ] || continue
  mkdir -p "$D/$(dirname $d)"; cp -a "$M/$d" "$D/$d"
done
cp "$M"/modules.{builtin,order,builtin.modinfo} "$D/" 2>/dev/null || true
chroot "$ROOT" /sbin/depmod "$KVER"
install -m755 "$KIT/vm-init" "$ROOT/vm-init"
echo rxevm > "$ROOT/etc/hostname"
find "$D" -name '*.ko.xz' -exec xz -d {} +   # newer Debian kernels compress modules
chroot "$ROOT" /sbin/depmod "$KVER"
rm -rf "$ROOT"/var/cache/apt/* "$ROOT"/var/lib/apt/lists/*
mkdir -p "$ROOT/host"
rm -f "$IMG/rootfs.ext4"
mke2fs -q -t ext4 -O ^has_journal -d "$ROOT" "$IMG/rootfs.ext4" "$SIZE"

# 3. tiny initrd: busybox + virtio_blk + ext4
I="$WORK/initrd.d"; rm -rf "$I"; mkdir -p "$I"/{bin,proc,sys,dev,mnt,mod}
cp "$ROOT/bin/busybox" "$I/bin/busybox"
: > "$I/mod/order"
for m in virtio_pci virtio_blk ext4 virtio_net 9pnet_virtio 9p; do
  chroot "$ROOT" /sbin/modprobe -S "$KVER" --show-depends $m 2>/dev/null | awk '/^insmod/{print $2}' | while read -r ko; do
    b=$(basename "$ko"); grep -qx "$b" "$I/mod/order" || { cp "$ROOT$ko" "$I/mod/$b"; echo "$b" >> "$I/mod/order"; }
  done
done
cat > "$I/init" <<'INIT'
#!/bin/busybox sh
B=/bin/busybox
$B mount -t devtmpfs dev /dev; $B mount -t proc proc /proc; $B mount -t sysfs sys /sys
for m in $($B cat /mod/order); do $B insmod /mod/$m 2>/dev/null; done
n=0; while [ ! -b /dev/vda ] && [ $n -lt 100 ]; do $B usleep 100000; n=$((n+1)); done
$B mount -t ext4 -o rw /dev/vda /mnt || { echo "ROOT MOUNT FAILED"; exec $B sh; }
$B umount /sys; $B umount /proc; $B mount --move /dev /mnt/dev
exec $B switch_root /mnt /vm-init
INIT
chmod 755 "$I/init"
( cd "$I" && find . | cpio -o -H newc --quiet | gzip -1 ) > "$IMG/initrd.img"
echo "$KVER" > "$IMG/kver"
ls -la "$IMG"; echo "built kernel $KVER"
