#include <cuda_runtime.h>

#include <utility>

#include "kernels/base/queue.hpp"
#include "kernels/cuda/queue_state.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {
namespace {

constexpr const char* kMark = "kernels.mark";

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

Mark::Mark(const Queue& queue, bool timed) : device_(queue.device()) {
  cuda::check_cuda(cudaSetDevice(device_.index), kMark, "set device");
  cudaEvent_t event = nullptr;
  cuda::check_cuda(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), kMark, "event");
  event_ = event;
}

Mark::~Mark() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_of(event_)));
}

Mark::Mark(Mark&& other) noexcept : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}

void Mark::record(Queue& queue, Lane lane) {
  cuda::check_cuda(cudaEventRecord(event_of(event_), queue.state().lane(lane)), kMark, "record");
}

void Mark::order(Queue& queue, Lane lane) const {
  cuda::check_cuda(cudaStreamWaitEvent(queue.state().lane(lane), event_of(event_), 0), kMark, "wait");
}

bool Mark::complete() const {
  const cudaError_t status = cudaEventQuery(event_of(event_));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // some versions keep it as the last error
    return false;
  }
  cuda::check_cuda(status, kMark, to_string(device_).c_str());
  return true;
}

float Mark::since(const Mark& earlier) const {
  float milliseconds = 0;
  cuda::check_cuda(cudaEventElapsedTime(&milliseconds, event_of(earlier.event_), event_of(event_)), kMark, "time");
  return milliseconds;
}

}  // namespace millrace::kernels
