#include <cuda_runtime.h>

#include <utility>

#include "kernels/base/device_context.hpp"
#include "kernels/cuda/device_context_state.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {
namespace {

constexpr const char* kMark = "kernels.mark";

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

Event::Event(const DeviceContext& queue, bool timed) : device_(queue.device()) {
  cuda::check_cuda(cudaSetDevice(device_.index), kMark, "set device");
  cudaEvent_t event = nullptr;
  cuda::check_cuda(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), kMark, "event");
  event_ = event;
}

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_of(event_)));
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}

void Event::record(DeviceContext& queue, StreamKind lane) {
  cuda::check_cuda(cudaEventRecord(event_of(event_), queue.state().lane(lane)), kMark, "record");
}

void Event::wait(DeviceContext& queue, StreamKind lane) const {
  cuda::check_cuda(cudaStreamWaitEvent(queue.state().lane(lane), event_of(event_), 0), kMark, "wait");
}

bool Event::complete() const {
  const cudaError_t status = cudaEventQuery(event_of(event_));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // some versions keep it as the last error
    return false;
  }
  cuda::check_cuda(status, kMark, to_string(device_).c_str());
  return true;
}

float Event::since(const Event& earlier) const {
  float milliseconds = 0;
  cuda::check_cuda(cudaEventElapsedTime(&milliseconds, event_of(earlier.event_), event_of(event_)), kMark, "time");
  return milliseconds;
}

}  // namespace millrace::kernels
