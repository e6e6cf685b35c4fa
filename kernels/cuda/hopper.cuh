#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#ifdef MILLRACE_EMULATED_CUDA
#include <hopper_instructions.h>
#endif

/// Instructions of compute capability 9.0a that kernels for Hopper GPUs are made of: barriers in shared memory, copies of tiles by the
/// tensor memory accelerator (TMA), and products of tiles in shared memory by a warpgroup, which is four consecutive warps. Each function
/// is one instruction; comments quote the titles of sections of the PTX ISA ("Parallel Thread Execution ISA", 8.0 or newer), whose numbers
/// differ between versions. Shared memory is addressed by the 32-bit numbers that `shared_address` returns.
namespace millrace::kernels::cuda::hopper {

#ifndef MILLRACE_EMULATED_CUDA

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// -- barriers: "mbarrier" -----------------------------------------------------------------------------------------------------------------
// A barrier completes a phase when all of its arrivals have happened and all announced bytes have been written. Phases alternate in parity,
// from 0 on. Waiting for parity 1 on a new barrier returns at once: the phase before the first one counts as complete.

__device__ __forceinline__ void initialize_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
/// Shows initialized barriers to the TMA; a barrier of the block must follow. "membar / fence".
__device__ __forceinline__ void fence_initialized_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives and announces that copies will write so many bytes in this phase.
__device__ __forceinline__ void arrive_and_expect(std::uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
/// Waits until the phase with this parity is complete.
__device__ __forceinline__ void wait(std::uint64_t* barrier, int parity) {
  std::uint32_t done = 0;
  do {
    asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}\n"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  } while (done == 0);
}

/// Waits for `threads` threads at one of the sixteen barriers of the block; __syncthreads is number 0. "bar / barrier".
template <int Number, int Threads>
__device__ __forceinline__ void wait_for_threads() {
  asm volatile("bar.sync %0, %1;" ::"n"(Number), "n"(Threads) : "memory");
}

// -- copies of tiles: "cp.async.bulk.tensor" ----------------------------------------------------------------------------------------------

/// Loads the descriptor of a tensor into its cache ahead of the first copy. `map`: a kernel parameter. "prefetch".
__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(&map)) : "memory");
}

/// Starts a copy of one box of a tensor with three axes, whose first element is (x, y, z), x along the contiguous axis. Elements outside of
/// the tensor become zeros. `barrier` counts the bytes of the whole box, those of such elements too.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, std::uint64_t* barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
               "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

/// Orders what this thread wrote to shared memory by plain stores before later accesses by copies and products. "membar / fence".
__device__ __forceinline__ void fence_for_asynchronous_access() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#endif

// -- products of tiles: "Asynchronous Warpgroup Level Matrix Instructions" ----------------------------------------------------------------
// A warpgroup adds the product of a 64 x 16 and a 16 x N tile to sums in its registers. Products run asynchronously: fence, multiply …,
// commit, and wait before the sums are read and before the operands are overwritten.

/// Which axis of an operand is contiguous in shared memory: that of the terms of a sum, or that of the rows or columns of the result.
enum class Major { k, mn };

// Both kinds of operand lie in shared memory as copies with CU_TENSOR_MAP_SWIZZLE_128B leave them: in lines of 64 elements, 128 bytes, of
// which the 16-byte pieces are permuted: piece p of line l is at position p ^ (l % 8). The pattern repeats every 8 lines, 1024 bytes, so
// that tiles begin at multiples of 1024 bytes. A descriptor ("Matrix-descriptor Format") has the address in bits 0 – 13,
// the leading byte offset in bits 16 – 29 and the stride byte offset in bits 32 – 45, all in units of 16 bytes, and 1 in bits 62 – 63 for
// this swizzle. What the offsets mean follows from the canonical layouts ("Strides" and "Canonical Layouts"), in elements of 2 bytes, with
// m and k counting repetitions:
//   k-major:  ((8, m), (8, 2)) : ((64, stride), (1, 8))
//     element (row 8·m + r, term t) is at m·stride + 64·r + t;
//   mn-major: ((8, 8, m), (8, k)) : ((1, 8, leading), (64, stride))
//     element (row 64·m + r, term 8·k + t) is at m·leading + k·stride + 64·t + r.
// k-major: a line is a row with 64 terms, and 8 rows are 1024 bytes: stride = 1024; the leading offset is not used. 16 terms further is 32
// bytes further within each line: the hardware permutes by bits of the address, so that the start may be any of the four.
// mn-major: a line is a term with 64 rows. A box of 64 terms is 8192 bytes long: 8 terms further is 1024 bytes (stride), the next 64 rows
// are the next box, 8192 bytes further (leading), and 16 terms further is 2048 bytes.

inline constexpr int kLine = 64;                   // elements of a line
inline constexpr int kLineBytes = 128;             // bytes of a line
inline constexpr int kBoxBytes = 64 * kLineBytes;  // a box of 64 lines

/// The descriptor of an operand whose first 16 terms begin at this address.
template <Major Order>
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t leading = Order == Major::k ? 1 : kBoxBytes / 16, stride = 8 * kLineBytes / 16;
  return static_cast<std::uint64_t>((address & 0x3ffffU) >> 4U) | leading << 16U | stride << 32U | std::uint64_t{1} << 62U;
}
/// How far apart two slices of 16 terms are, in the units of a descriptor, to which a multiple may be added.
template <Major Order>
inline constexpr int slice_offset = (Order == Major::k ? 16 * 2 : 16 * kLineBytes) / 16;

#ifdef MILLRACE_EMULATED_CUDA

template <Major Left, Major Right, int Count>
void multiply(float (&sums)[Count], std::uint64_t left, std::uint64_t right, bool accumulate) {
  issue([&sums, left, right, accumulate] {
    float of_lane[2][16];
    left_of_lane<Left == Major::mn>(left, of_lane);
    add_terms<Right == Major::mn, 2 * Count>(sums, of_lane, right, accumulate);
  });
}

#else

/// Orders accesses to the sums before products. "wgmma.fence".
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes the group of the products since the last call. "wgmma.commit_group".
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most so many of the latest groups are not complete. "wgmma.wait_group".
template <int Pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// "wgmma.mma_async": lane 4·g + t of warp w holds columns 8·j + 2·t and 8·j + 2·t + 1 of row 16·w + g in sums[4·j] and sums[4·j + 1], and
// of row 16·w + g + 8 in sums[4·j + 2] and sums[4·j + 3] ("Register fragments", accumulator D). Without `accumulate` the previous sums
// count as zero.
#define MILLRACE_FOUR_SUMS(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define MILLRACE_SUMS(i) MILLRACE_FOUR_SUMS(i), MILLRACE_FOUR_SUMS((i) + 4), MILLRACE_FOUR_SUMS((i) + 8), MILLRACE_FOUR_SUMS((i) + 12)

/// sums[64][64] (+)= left · right for 16 terms.
template <Major Left, Major Right>
__device__ __forceinline__ void multiply(float (&sums)[32], std::uint64_t left, std::uint64_t right, bool accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, accumulate, 1, 1, %35, %36;\n}\n"
      : MILLRACE_SUMS(0), MILLRACE_SUMS(16)
      : "l"(left), "l"(right), "r"(accumulate ? 1 : 0), "n"(Left == Major::mn ? 1 : 0), "n"(Right == Major::mn ? 1 : 0));
}

/// sums[64][128] (+)= left · right for 16 terms.
template <Major Left, Major Right>
__device__ __forceinline__ void multiply(float (&sums)[64], std::uint64_t left, std::uint64_t right, bool accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, accumulate, 1, 1, %67, %68;\n}\n"
      : MILLRACE_SUMS(0), MILLRACE_SUMS(16), MILLRACE_SUMS(32), MILLRACE_SUMS(48)
      : "l"(left), "l"(right), "r"(accumulate ? 1 : 0), "n"(Left == Major::mn ? 1 : 0), "n"(Right == Major::mn ? 1 : 0));
}

/// sums[64][256] (+)= left · right for 16 terms.
template <Major Left, Major Right>
__device__ __forceinline__ void multiply(float (&sums)[128], std::uint64_t left, std::uint64_t right, bool accumulate) {
  asm volatile(
      "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, accumulate, 1, 1, %131, %132;\n}\n"
      : MILLRACE_SUMS(0), MILLRACE_SUMS(16), MILLRACE_SUMS(32), MILLRACE_SUMS(48), MILLRACE_SUMS(64), MILLRACE_SUMS(80), MILLRACE_SUMS(96),
        MILLRACE_SUMS(112)
      : "l"(left), "l"(right), "r"(accumulate ? 1 : 0), "n"(Left == Major::mn ? 1 : 0), "n"(Right == Major::mn ? 1 : 0));
}

#undef MILLRACE_SUMS
#undef MILLRACE_FOUR_SUMS

// -- registers: "setmaxnreg" --------------------------------------------------------------------------------------------------------------
// All warps of a warpgroup call it. A multiple of 8.

template <int Registers>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

#endif

}  // namespace millrace::kernels::cuda::hopper
