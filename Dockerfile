# docker build --tag glassformer .
# docker run --rm --volume "$PWD:/work" glassformer train lm data.train.path=text.txt --run runs/mine
# docker run --rm --volume "$PWD:/work" --publish 127.0.0.1:8420:8420 glassformer inspect runs/mine --host 0.0.0.0 --port 8420 --no-browser
FROM python:3.12-slim
ARG TORCH_INDEX=""
COPY constraints.txt pyproject.toml README.md LICENSE /source/
COPY src /source/src
# TORCH_INDEX: the index of torch's CPU build, in place of several gigabytes of CUDA libraries.
RUN pip install --no-cache-dir --constraint /source/constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch \
 && pip install --no-cache-dir --constraint /source/constraints.txt "/source[eval,demo,track,audio]" \
 && useradd --create-home --uid 1000 user
USER user
WORKDIR /work
ENTRYPOINT ["glassformer"]
