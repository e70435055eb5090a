# docker build -t noclobber .
# docker run --rm --cap-add SYS_ADMIN --cap-add SYS_PTRACE --security-opt seccomp=unconfined \
#     --security-opt apparmor=unconfined --security-opt systempaths=unconfined -v "$PWD:/work:ro" noclobber run /work/guard.toml
FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bins -p noclobber -p queue-core

FROM debian:bookworm-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends jq python3 util-linux \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/noclobber /src/target/release/queue /usr/local/bin/
WORKDIR /work
ENTRYPOINT ["noclobber"]
CMD ["doctor"]
