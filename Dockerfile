# Build the wheel, then install nothing but it. What holds agents in inside a container:
# docs/howto.md, "Run treadle in a container".
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install --no-install-recommends -y bubblewrap git \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN set -- /wheels/treadle-*.whl && pip install --no-cache-dir "$1[mcp]" && rm -r /wheels
RUN useradd --create-home --uid 1000 treadle
USER 1000
WORKDIR /project
ENTRYPOINT ["treadle"]
CMD ["status"]
