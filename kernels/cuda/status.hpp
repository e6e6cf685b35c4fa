#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/base/check.hpp"

namespace millrace::kernels::cuda {

/// Throws Error(device) unless the call succeeded: "[component] what: CUDA's own words".
inline void check_cuda(cudaError_t status, const char* component, const char* what) {
  if (status != cudaSuccess) fail(ExitCode::device, component, "{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

inline void check_cublas(cublasStatus_t status, const char* component, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(ExitCode::device, component, "{}: {}", what, cublasLtGetStatusString(status));
}

}  // namespace millrace::kernels::cuda
