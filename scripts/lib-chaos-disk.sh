# shellcheck shell=bash
# The disks of scripts/chaos, and their faults. DISKS says what a scenario needs: plain (default), small or ext4.
# Sourced by scripts/chaos.

readonly DISK_MIB=96

folder() { echo "$WORK/disk-$1"; }

prepare_folder() {
  local at
  at=$(folder "$1")
  mkdir "$at"
  case ${DISKS:-plain} in
    plain) ;;
    small) mount -t tmpfs -o "size=${DISK_MIB}m" tmpfs "$at" ;;
    ext4)
      truncate --size "${DISK_MIB}M" "$at.img"
      mkfs.ext4 -q -F "$at.img"
      mount -o loop "$at.img" "$at"
      ;;
  esac
}

remove_folders() {
  local node
  for node in $(nodes); do
    mountpoint -q "$(folder "$node")" || continue
    umount "$(folder "$node")" || umount --lazy "$(folder "$node")"
  done
}

# --- For scenarios -------------------------------------------------------------------------------------------------

# With DISKS=small: nothing more goes onto a node's disk, until heal.
fill_disk() { dd if=/dev/zero of="$(folder "$1")/filler" bs=64K status=none 2>/dev/null || true; }

# With DISKS=ext4: nodes lose power. What they had not synced is gone; heal starts them again.
cut_power() {
  local node
  for node in "$@"; do
    # EXT4_IOC_SHUTDOWN, without even a flush of the journal: see scripts/power-cuts.
    python3 -c '
import fcntl, os, struct, sys
folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
fcntl.ioctl(folder, 0x8004587D, struct.pack("I", 2))' "$(folder "$node")"
  done
  kill_nodes "$@"
  for node in "$@"; do
    umount "$(folder "$node")"
    mount -o loop "$(folder "$node").img" "$(folder "$node")"
  done
}

heal_disks() {
  local node
  for node in $(nodes); do rm -f "$(folder "$node")/filler"; done
}
