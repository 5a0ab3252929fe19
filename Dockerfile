# The wheel first, so that the image holds what is packaged and nothing else of the source tree.
# For a digest build with --build-arg PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /source
COPY . .
RUN python -m venv --without-pip /build \
    && pip --python /build/bin/python install --no-cache-dir --require-hashes -r requirements/build.txt \
    && pip --python /build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels .
RUN python -m venv --without-pip /autoscaler \
    && pip --python /autoscaler/bin/python install --no-cache-dir --require-hashes -r requirements/image.txt \
    && pip --python /autoscaler/bin/python install --no-index --no-deps /wheels/*.whl

FROM ${PYTHON_IMAGE}
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
