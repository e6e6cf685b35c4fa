#include <cuda_runtime.h>

#include <utility>

#include "kernels/base/device_context.hpp"
#include "kernels/cuda/device_context_state.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels {
namespace {

constexpr const char* kGraph = "kernels.graph";

void destroy(void* graph) noexcept {
  if (graph != nullptr) static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace

Graph::~Graph() { destroy(graph_); }

Graph::Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this != &other) {
    destroy(graph_);
    graph_ = std::exchange(other.graph_, nullptr);
  }
  return *this;
}

void Graph::begin(DeviceContext& queue) {
  cuda::check_cuda(cudaStreamBeginCapture(queue.state().lane(StreamKind::compute), cudaStreamCaptureModeThreadLocal), kGraph, "begin");
  queue.state().capturing = true;
}

void Graph::end(DeviceContext& queue) {
  queue.state().capturing = false;
  cudaGraph_t recorded = nullptr;
  cuda::check_cuda(cudaStreamEndCapture(queue.state().lane(StreamKind::compute), &recorded), kGraph, "end");
  cudaGraphExec_t made = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&made, recorded, 0);
  static_cast<void>(cudaGraphDestroy(recorded));
  cuda::check_cuda(status, kGraph, "instantiate");
  destroy(graph_);
  graph_ = made;
}

void Graph::abandon(DeviceContext& queue) noexcept {
  if (!queue.state().capturing) return;
  queue.state().capturing = false;
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(queue.state().lane(StreamKind::compute), &recorded));
  if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
  static_cast<void>(cudaGetLastError());
}

void Graph::launch(DeviceContext& queue) const {
  cuda::check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph_), queue.state().lane(StreamKind::compute)), kGraph, "launch");
}

}  // namespace millrace::kernels
