# Build the wheel, then install nothing but it. What holds agents in inside a container:
# docs/howto.md, "Run treadle in a container".
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# What is newest in the image's own Debian.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
# This very wheel, with the dependencies that it names.
# hadolint ignore=DL3013
RUN set -- /wheels/treadle-*.whl && pip install --no-cache-dir "$1[mcp]" && rm -r /wheels
# Whoever --user names has this home, and may keep there what is trusted.
RUN useradd --create-home --uid 1000 treadle && chmod 1777 /home/treadle
ENV HOME=/home/treadle
USER 1000
WORKDIR /project
ENTRYPOINT ["treadle"]
CMD ["status"]
