#pragma once

#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/hopper.cuh"

/// The ring of stages through which one thread hands tiles to the threads that multiply them.
namespace millrace::kernels::cuda::hopper {

/// A position in the ring, and the parity of the phase in which its stage is filled there.
template <int Count>
struct Ring {
  int stage = 0, parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == Count) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// The block's dynamic shared memory from a multiple of 1024 on, where swizzled tiles begin: up to 1023 bytes further.
__device__ __forceinline__ unsigned char* tile_memory() {
  auto* const bytes = dynamic_shared<unsigned char>();
  return bytes + (1024 - shared_address(bytes) % 1024) % 1024;
}

}  // namespace millrace::kernels::cuda::hopper
