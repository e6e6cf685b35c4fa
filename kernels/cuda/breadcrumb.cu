#include "kernels/base/device_context.hpp"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels {
namespace {

__global__ void note_number(std::uint32_t* noted, std::uint32_t number) { *noted = number; }

}  // namespace

void DeviceContext::set_breadcrumb(std::uint32_t number) {
  cuda::launch(state_->lane(StreamKind::compute), "kernels.note", note_number, dim3(1), dim3(1), 0, &state_->fault->noted, number);
}

void DeviceContext::set_action(std::uint32_t number) {
  cuda::launch(state_->lane(StreamKind::compute), "kernels.note_work", note_number, dim3(1), dim3(1), 0, &state_->fault->noted_work,
               number);
}

}  // namespace millrace::kernels
