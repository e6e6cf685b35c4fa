#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {

#ifndef MILLRACE_EMULATED_CUDA
/// The driver's function that encodes a tensor map. It is asked for at run time, so that nothing is linked with the driver's library.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder(const char* component) {
  static const auto encoder = [component] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found), component,
               "tensor maps");
#else
    check_cuda(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found), component, "tensor maps");
#endif
    MILLRACE_CHECK(function != nullptr && found == cudaDriverEntryPointSuccess, ExitCode::device, component,
                   "the driver has no cuTensorMapEncodeTiled, expected that of CUDA 12.0 or newer");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}
#endif

/// How a kernel copies boxes of a bf16 tensor into shared memory (kernels/cuda/hopper.cuh): 64 elements of the contiguous axis, a line of
/// 128 bytes, from each of `lines` neighbours along the second axis, swizzled by 128 bytes. `data`: aligned to 16 bytes; sizes: elements
/// along the contiguous axis, a multiple of 8, then along the second and the third one; `lines`: at most 256. A kernel takes the map as a
/// parameter that is a __grid_constant__, which a graph keeps by its value. `steps`: elements from one place to the next along the second
/// and the third axis, multiples of 8.
inline CUtensorMap map_of_lines(const char* component, const void* data, std::array<std::int64_t, 3> sizes,
                                std::array<std::int64_t, 2> steps, int lines) {
#ifdef MILLRACE_EMULATED_CUDA
  static_cast<void>(component);
  return {static_cast<const char*>(data), {sizes[0], sizes[1], sizes[2]}, {steps[0], steps[1]}, lines};
#else
  const std::array<cuuint64_t, 3> dims{static_cast<cuuint64_t>(sizes[0]), static_cast<cuuint64_t>(sizes[1]),
                                       static_cast<cuuint64_t>(sizes[2])};
  const std::array<cuuint64_t, 2> strides{static_cast<cuuint64_t>(steps[0]) * 2, static_cast<cuuint64_t>(steps[1]) * 2};  // bytes
  const std::array<cuuint32_t, 3> box{64, static_cast<cuuint32_t>(lines), 1}, each{1, 1, 1};
  CUtensorMap map;
  const CUresult status = tensor_map_encoder(component)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(data), dims.data(), strides.data(), box.data(), each.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  MILLRACE_CHECK(status == CUDA_SUCCESS, ExitCode::device, component, "error {} for the tensor map of [{}, {}, {}]",
                 static_cast<int>(status), sizes[2], sizes[1], sizes[0]);
  return map;
#endif
}
/// The same of a contiguous tensor.
inline CUtensorMap map_of_lines(const char* component, const void* data, std::array<std::int64_t, 3> sizes, int lines) {
  return map_of_lines(component, data, sizes, {sizes[0], sizes[0] * sizes[1]}, lines);
}

}  // namespace millrace::kernels::cuda
