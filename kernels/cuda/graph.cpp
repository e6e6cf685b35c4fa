#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.graph";

class CudaGraph final : public GraphState {
 public:
  explicit CudaGraph(cudaGraph_t recorded) { check_cuda(cudaGraphInstantiate(&graph_, recorded, 0), component, "instantiate"); }
  ~CudaGraph() override { static_cast<void>(cudaGraphExecDestroy(graph_)); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void launch(DeviceContext& context) const override {
    check_cuda(cudaGraphLaunch(graph_, state_of(context).lane(StreamKind::compute)), component, "launch");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { static_cast<void>(cudaGraphDestroy(graph)); }
};

}  // namespace

void CudaContext::begin_capture() {
  check_cuda(cudaStreamBeginCapture(state_.lane(StreamKind::compute), cudaStreamCaptureModeThreadLocal), component, "begin");
  state_.capturing = true;
}

std::unique_ptr<GraphState> CudaContext::end_capture() {
  state_.capturing = false;
  cudaGraph_t ended = nullptr;
  check_cuda(cudaStreamEndCapture(state_.lane(StreamKind::compute), &ended), component, "end");
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> recorded(ended);
  return std::make_unique<CudaGraph>(recorded.get());
}

void CudaContext::abandon_capture() noexcept {
  if (!state_.capturing) return;
  state_.capturing = false;
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(state_.lane(StreamKind::compute), &recorded));
  if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
  static_cast<void>(cudaGetLastError());
}

}  // namespace millrace::kernels::cuda
