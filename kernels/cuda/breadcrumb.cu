#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

__global__ void note_number(std::uint32_t* noted, std::uint32_t number) { *noted = number; }

}  // namespace

void CudaContext::set_breadcrumb(std::uint32_t number) {
  launch(state_.lane(StreamKind::compute), "kernels.breadcrumb", note_number, dim3(1), dim3(1), 0, &state_.fault->noted, number);
}

void CudaContext::set_action(std::uint32_t number) {
  launch(state_.lane(StreamKind::compute), "kernels.action_breadcrumb", note_number, dim3(1), dim3(1), 0, &state_.fault->noted_work,
         number);
}

}  // namespace millrace::kernels::cuda
