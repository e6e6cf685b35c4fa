#pragma once

#include <cuda_runtime.h>

namespace millrace::kernels::cuda {

/// The shared memory whose size is set at launch.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#ifdef MILLRACE_EMULATED_CUDA
  return static_cast<T*>(emulated_cuda::dynamic_shared());
#else
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
#endif
}

}  // namespace millrace::kernels::cuda
