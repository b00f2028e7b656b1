# shellcheck shell=bash
# Makes the images of scripts/compose-test on this machine, from Debian's packages alone: no registry is asked.
# Sourced after lib-cluster.sh. Expects WORK, a scratch folder, and the repository as the current folder.

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# Sets ROOTFS to a tarball of Debian bookworm with the PACKAGES (comma separated, may be empty) on top.
# It is made once and kept in the user's cache folder; delete it there to have it made anew.
debian_rootfs() {
  local name=$1 packages=$2 cache=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
  ROOTFS=$cache/bookworm-$(dpkg --print-architecture)-$name.tar.gz
  if [[ -s $ROOTFS ]]; then
    say "base image: using $ROOTFS"
    return
  fi
  say "base image: debootstrap makes $ROOTFS"
  mkdir -p "$cache"
  quietly as_root debootstrap --variant=minbase ${packages:+"--include=$packages"} bookworm "$WORK/rootfs" \
    ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
  # Written beside and renamed: a run that is cut short leaves no half of a cache.
  as_root tar -C "$WORK/rootfs" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' \
    --exclude='./dev/*' -c . | gzip -1 >"$ROOTFS.$$"
  mv "$ROOTFS.$$" "$ROOTFS"
  as_root rm -rf --one-file-system "$WORK/rootfs"
}

# Imports the image TAG that stands in for the Dockerfile's RUNTIME_IMAGE.
import_runtime_base() {
  local tag=$1
  debian_rootfs runtime ''
  quietly docker import "$ROOTFS" "$tag"
}

# Imports the image TAG that stands in for the Dockerfile's BUILDER_IMAGE: Debian with a linker, this machine's Rust
# toolchain, and the sources of every crate in Cargo.lock, which cargo is told to use instead of the registry.
import_builder_base() {
  local tag=$1 root=$WORK/builder sysroot
  sysroot=$(rustc --print sysroot)
  debian_rootfs builder gcc,libc6-dev
  say "builder image: adding $(rustc --version) and the vendored crates"
  as_root mkdir -p "$root"
  as_root tar -C "$root" -xzf "$ROOTFS"
  as_root cp -a "$sysroot/bin" "$sysroot/lib" "$root/usr/local/"
  as_root mkdir -p "$root/usr/local/cargo"
  cargo vendor --quiet --locked --versioned-dirs "$WORK/vendor" >/dev/null
  as_root mv "$WORK/vendor" "$root/usr/local/cargo/vendor"
  as_root tee "$root/usr/local/cargo/config.toml" >/dev/null <<'TOML'
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "/usr/local/cargo/vendor"
TOML
  as_root tar -C "$root" -c . |
    quietly docker import --change 'ENV CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true' - "$tag"
  as_root rm -rf --one-file-system "$root"
}

# Builds IMAGE by the whole Dockerfile, all of its stages.
# The builder stage gets a tag of its own, IMAGE-built, so that it can be removed; the second build finds it made.
build_image_in_full() {
  local image=$1
  local bases=(--build-arg "RUNTIME_IMAGE=$2" --build-arg "BUILDER_IMAGE=$3")
  say "image: the whole Dockerfile, program included"
  quietly docker build "${bases[@]}" --target builder --tag "$image-built" .
  quietly docker build "${bases[@]}" --tag "$image" .
}

# Builds IMAGE by the Dockerfile's stage for all but the program, and puts PROGRAM on top.
# The Dockerfile's own last stage does nothing else than this COPY.
build_image_around() {
  local image=$1 runtime_base=$2 program=$3
  say "image: the Dockerfile's runtime stage around $program"
  quietly docker build --build-arg "RUNTIME_IMAGE=$runtime_base" --target runtime-base --tag "$image-base" .
  mkdir "$WORK/context"
  cp "$program" "$WORK/context/holdfast"
  printf 'FROM %s\nCOPY holdfast /usr/local/bin/holdfast\n' "$image-base" >"$WORK/context/Dockerfile"
  quietly docker build --tag "$image" "$WORK/context"
  rm -r "$WORK/context"
}
