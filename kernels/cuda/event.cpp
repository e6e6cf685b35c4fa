#include <cuda_runtime.h>

#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.event";

class CudaEvent final : public EventState {
 public:
  CudaEvent(Device device, bool timed) : device_(device) {
    check_cuda(cudaSetDevice(device.index), component, "set device");
    check_cuda(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming), component, "event");
  }
  ~CudaEvent() override { static_cast<void>(cudaEventDestroy(event_)); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(DeviceContext& context, StreamKind stream) override {
    check_cuda(cudaEventRecord(event_, state_of(context).lane(stream)), component, "record");
  }
  void wait(DeviceContext& context, StreamKind stream) const override {
    check_cuda(cudaStreamWaitEvent(state_of(context).lane(stream), event_, 0), component, "wait");
  }
  [[nodiscard]] bool complete() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // some versions keep it as the last error
      return false;
    }
    check_cuda(status, component, to_string(device_).c_str());
    return true;
  }
  [[nodiscard]] float since(const EventState& earlier) const override {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(earlier).event_, event_), component, "time");
    return milliseconds;
  }

 private:
  Device device_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::unique_ptr<EventState> CudaContext::make_event(bool timed) { return std::make_unique<CudaEvent>(device(), timed); }

}  // namespace millrace::kernels::cuda
