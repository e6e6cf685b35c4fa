// Streams and events.

#include <algorithm>

#include "tests/emulated_cuda/process.hpp"

using namespace emulated_cuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  if (is_broken()) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  *stream = new CUstream_st(current_device);
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.streams.insert(*stream);
  return done(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Process& p = process();
  {
    const std::lock_guard lock(p.mutex);
    if (p.streams.erase(stream) == 0) return done(cudaErrorInvalidResourceHandle);
  }
  delete stream;  // queued work is completed first
  return done(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream = stream_of(stream);
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorStreamCaptureUnsupported);
  }
  stream->drain();
  return done(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  return done(stream_of(stream)->idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = nullptr;
  if (is_broken()) return done(cudaSuccess);
  if (settings().devices <= 0) return done(cudaErrorNoDevice);
  *event = new CUevent_st;
  (*event)->device = current_device;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return done(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  delete event;
  return done(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream = stream_of(stream);
  if (event == nullptr || event->device != stream->device) return done(cudaErrorInvalidResourceHandle);
  auto point = std::make_shared<Point>();
  {
    const std::lock_guard lock(event->mutex);
    event->point = point;
    event->captured = stream->capture;
    event->after = stream->capture != nullptr ? stream->capture->before[stream] : StreamClock{};
  }
  // In a graph, work runs in the order in which it was captured, so nothing remains to be done.
  if (stream->capture == nullptr) stream->push({[point] { point->reach(); }, Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream = stream_of(stream);
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Point> point;
  std::shared_ptr<CUgraph_st> captured;
  StreamClock after;
  {
    const std::lock_guard lock(event->mutex);
    point = event->point;
    captured = event->captured;
    after = event->after;
  }
  if (captured != nullptr) {
    if (captured->ended) return done(cudaErrorCapturedEvent);
    if (stream->capture == nullptr) stream->capture = captured;  // joins it
    if (stream->capture != captured) return done(cudaErrorStreamCaptureIsolation);
    for (const auto& [other, count] : after) captured->before[stream][other] = std::max(captured->before[stream][other], count);
    return done(cudaSuccess);
  }
  if (stream->capture != nullptr) {
    stream->capture->valid = false;
    return done(cudaErrorStreamCaptureIsolation);
  }
  if (point != nullptr) stream->push({[point] { point->wait(); }, Work::order});
  return done(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (in_capture()) return done(cudaErrorStreamCaptureUnsupported);
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(event->mutex);
  if (event->captured != nullptr) return done(cudaErrorCapturedEvent);
  return done(event->point == nullptr || event->point->is_complete() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return done(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Point> point;
  {
    const std::lock_guard lock(event->mutex);
    if (event->captured != nullptr) return done(cudaErrorCapturedEvent);
    point = event->point;
  }
  if (point != nullptr) point->wait();
  return done(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from == nullptr || to == nullptr || !from->timed || !to->timed || from->point == nullptr || to->point == nullptr)
    return done(cudaErrorInvalidResourceHandle);
  if (!from->point->is_complete() || !to->point->is_complete()) return done(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->point->when - from->point->when).count();
  return done(cudaSuccess);
}
