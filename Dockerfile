# The base images are arguments, so that a mirror's or a home-made one can take their place.
# The classic builder and BuildKit both take this file.
ARG RUNTIME_IMAGE=debian:bookworm-slim
ARG BUILDER_IMAGE=rust:1.95-slim-bookworm

# All of the final image but the program. It comes first, so that `--target runtime-base` builds nothing else.
FROM ${RUNTIME_IMAGE} AS runtime-base
# A new named volume takes its owner from the folder it is mounted on: without this the program could not write there.
RUN install -d -o 65532 -g 65532 -m 0750 /var/lib/holdfast
ENV HOLDFAST_DATA_DIR=/var/lib/holdfast \
    HOLDFAST_LISTEN=0.0.0.0:7101 \
    HOLDFAST_PEER_LISTEN=0.0.0.0:7201
USER 65532:65532
VOLUME /var/lib/holdfast
EXPOSE 7101 7201
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/holdfast"]
CMD ["serve"]

FROM ${BUILDER_IMAGE} AS builder
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p holdfast

FROM runtime-base AS runtime
COPY --from=builder /src/target/release/holdfast /usr/local/bin/holdfast
