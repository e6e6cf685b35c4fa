// Captures and graphs. A capture is a single list over all streams that join it, in the order of the calls, which satisfies every
// dependency.

#include "tests/emulated_cuda/process.hpp"

using namespace emulated_cuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_broken()) return done(cudaSuccess);
  if (stream == nullptr) return done(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return done(cudaErrorIllegalState);
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->origin = true;
  if (mode == cudaStreamCaptureModeGlobal) ++global_captures;
  if (mode == cudaStreamCaptureModeThreadLocal) ++own_captures;
  if (mode != cudaStreamCaptureModeRelaxed) own_graphs.emplace_back(stream->capture);
  return done(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr || !stream->origin) return done(cudaErrorIllegalState);
  const auto captured = stream->capture;
  if (captured->mode != cudaStreamCaptureModeRelaxed && captured->thread != std::this_thread::get_id())
    return done(cudaErrorStreamCaptureWrongThread);
  {
    Process& p = process();
    const std::lock_guard lock(p.mutex);
    for (cudaStream_t other : p.streams)
      if (other->capture == captured) other->capture = nullptr;
  }
  stream->origin = false;
  if (captured->mode == cudaStreamCaptureModeGlobal) --global_captures;
  if (captured->mode == cudaStreamCaptureModeThreadLocal) --own_captures;
  std::erase_if(own_graphs, [&](const auto& weak) { return weak.expired() || weak.lock() == captured; });
  captured->ended = true;
  if (!captured->valid) return done(cudaErrorStreamCaptureInvalidated);
  StreamClock& joined = captured->before[stream];
  for (auto& [other, clock] : captured->before)
    if (clock[other] > joined[other]) return done(cudaErrorStreamCaptureUnjoined);
  if (is_broken()) return done(cudaSuccess);
  *graph = new CUgraph_st;
  (*graph)->work = captured->work;
  return done(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream == nullptr || stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->valid                        ? cudaStreamCaptureStatusActive
                                                            : cudaStreamCaptureStatusInvalidated;
  return done(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = nullptr;
  if (graph == nullptr) return done(cudaErrorInvalidValue);
  if (is_broken()) return done(cudaSuccess);
  *made = new CUgraphExec_st{std::make_shared<const std::vector<Work>>(graph->work), current_device};
  return done(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t) { return done(graph == nullptr ? cudaErrorInvalidValue : cudaSuccess); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (is_broken()) return done(cudaSuccess);
  if (graph == nullptr) return done(cudaErrorInvalidValue);
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorNotSupported);
  }
  const auto work = graph->work;
  stream->push({[work] {
                  for (const Work& one : *work) CUstream_st::perform(one);
                },
                Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return done(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return done(cudaSuccess);
}
