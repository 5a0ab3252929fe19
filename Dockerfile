# The wheel first, so that the image holds what is packaged and nothing else of the source tree.
# `make image-base` brings the digest up to date. A mirror of the base image has the same digest: --build-arg PYTHON_IMAGE=...
ARG PYTHON_IMAGE=docker.io/library/python:3.11.16-slim-bookworm
ARG PYTHON_DIGEST=sha256:c425d915a89a6dcd3183b1797ad9bd8878caff5a417f6371c8df93c8ea8b727f

FROM ${PYTHON_IMAGE}@${PYTHON_DIGEST} AS build
WORKDIR /source
COPY requirements requirements
RUN python -m venv --without-pip /build \
    && pip --python /build/bin/python install --no-cache-dir --require-hashes -r requirements/build.txt
RUN python -m venv --without-pip /autoscaler \
    && pip --python /autoscaler/bin/python install --no-cache-dir --require-hashes -r requirements/image.txt
COPY . .
RUN pip --python /build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /autoscaler/bin/python install --no-index --no-deps /wheels/*.whl

FROM ${PYTHON_IMAGE}@${PYTHON_DIGEST}
COPY --from=build /autoscaler /autoscaler
# Installations of Cluster Autoscaler start ./cluster-autoscaler in the root directory.
RUN ln -s /autoscaler/bin/autoscaler /cluster-autoscaler
ENV PATH=/autoscaler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
EXPOSE 8085
# For engines without probes of their own; Kubernetes has those of the Deployment.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8085/health-check', timeout=4)"]
ENTRYPOINT ["autoscaler"]
# `make image` fills these in. They stand last: they change with every commit, and no layer depends on them.
ARG PYTHON_IMAGE
ARG PYTHON_DIGEST
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="Node autoscaler" \
    org.opencontainers.image.description="A Kubernetes node autoscaler that decides like Cluster Autoscaler, faster, and says why" \
    org.opencontainers.image.licenses=Apache-2.0 \
    org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.revision=${REVISION} \
    org.opencontainers.image.created=${CREATED} \
    org.opencontainers.image.source=${SOURCE} \
    org.opencontainers.image.base.name=${PYTHON_IMAGE} \
    org.opencontainers.image.base.digest=${PYTHON_DIGEST}
