#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace {

/// The numbers that a kernel wrote to pinned memory.
template <class T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) {
    EXPECT_EQ(cudaMallocHost(&memory_, count * sizeof(T)), cudaSuccess);
    std::fill_n(memory_, count, T{});
  }
  ~Pinned() { cudaFreeHost(memory_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  operator T*() const { return memory_; }  // NOLINT

 private:
  T* memory_ = nullptr;
};

class EmulatedCuda : public ::testing::Test {
 protected:
  EmulatedCuda() {
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  }
  ~EmulatedCuda() override {
    cudaStreamDestroy(stream_);
    cudaGetLastError();
  }
  template <class... Parameters, class... Arguments>
  cudaError_t start(dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Parameters...), const Arguments&... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream_;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  }
  template <class... Parameters, class... Arguments>
  void run(dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Parameters...), const Arguments&... arguments) {
    ASSERT_EQ(start(grid, block, shared, kernel, arguments...), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  cudaStream_t stream_ = nullptr;
};

__global__ void places(uint4* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = make_uint4(threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.y);
}

TEST_F(EmulatedCuda, EveryThreadHasItsPlace) {
  const Pinned<uint4> found(2 * 3 * 2 * 30);
  run(dim3(2, 3, 2), dim3(5, 3, 2), 0, places, found);
  for (unsigned block = 0; block < 12; ++block)
    for (unsigned thread = 0; thread < 30; ++thread) {
      const uint4 place = found[block * 30 + thread];
      EXPECT_EQ(place.x + 5 * (place.y + 3 * place.z), thread);
      EXPECT_EQ(place.w, block / 2 % 3);
    }
}

// Repeated sums over a block through shared memory, which reveal a barrier that a thread passes too early.
__global__ void turn_around(int* out, int rounds) {
  __shared__ int table[256];
  auto* const more = static_cast<int*>(emulated_cuda::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), last = static_cast<int>(blockDim.x) - 1;
  int value = thread;
  for (int round = 0; round < rounds; ++round) {
    table[thread] = value;
    __syncthreads();
    more[thread] = table[last - thread] + 1;
    __syncthreads();
    value = more[thread];
  }
  out[static_cast<int>(blockIdx.x) * (last + 1) + thread] = value;
}

TEST_F(EmulatedCuda, BarriersHoldWholeBlocks) {
  for (const int threads : {1, 31, 33, 256}) {
    const Pinned<int> found(static_cast<std::size_t>(3 * threads));
    run(dim3(3), dim3(static_cast<unsigned>(threads)), 256 * sizeof(int), turn_around, found, 8);
    for (int i = 0; i < 3 * threads; ++i) EXPECT_EQ(found[i], i % threads + 8) << threads;
  }
}

__global__ void leave_early(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % 3 == 0) return;
  const int with = __syncthreads_count(thread % 2 == 0);
  const int any = __syncthreads_or(thread == 7), none = __syncthreads_or(0), all = __syncthreads_and(thread % 3 != 0);
  out[thread] = with * 1000 + any * 100 + none * 10 + all;
}

TEST_F(EmulatedCuda, NobodyWaitsForThreadsThatReturned) {
  const Pinned<int> found(100);
  run(dim3(1), dim3(100), 0, leave_early, found);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(found[i], i % 3 == 0 ? 0 : 33101) << i;
}

__global__ void shuffle(double* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32, thread = static_cast<int>(threadIdx.x);
  float sum = static_cast<float>(thread);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  const double next = __shfl_down_sync(0xffffffffU, static_cast<double>(thread), 1);
  const long long before = __shfl_up_sync(0xffffffffU, static_cast<long long>(thread), 2, 16);
  const int third = __shfl_sync(0xffffffffU, thread, 3, 8);
  const unsigned odd = __ballot_sync(0xffffffffU, lane % 2);
  int half = 0;  // the two halves of a warp separately, the lower one twice as often
  if (lane < 16) {
    half = __shfl_xor_sync(0x0000ffffU, thread, 1);
    half += __shfl_xor_sync(0x0000ffffU, thread, 2);
  } else {
    half = __shfl_xor_sync(0xffff0000U, thread, 1);
  }
  __syncwarp();
  double* const mine = out + thread * 6;
  mine[0] = sum;
  mine[1] = next;
  mine[2] = static_cast<double>(before);
  mine[3] = third;
  mine[4] = odd;
  mine[5] = half;
}

TEST_F(EmulatedCuda, WarpsExchangeWhatTheirLanesHave) {
  const Pinned<double> found(64 * 6);
  run(dim3(1), dim3(64), 0, shuffle, found);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    EXPECT_EQ(found[thread * 6], thread < 32 ? 496 : 496 + 32 * 32);
    EXPECT_EQ(found[thread * 6 + 1], lane == 31 ? thread : thread + 1);
    EXPECT_EQ(found[thread * 6 + 2], lane % 16 < 2 ? thread : thread - 2);
    EXPECT_EQ(found[thread * 6 + 3], thread / 8 * 8 + 3);
    EXPECT_EQ(found[thread * 6 + 4], 0xaaaaaaaaU);
    EXPECT_EQ(found[thread * 6 + 5], lane < 16 ? (thread ^ 1) + (thread ^ 2) : thread ^ 1);
  }
}

// StreamKind 0 waits for the block, the others of its warp for lane 0.
__global__ void pass_each_other(int* out) {
  if (threadIdx.x == 0)
    __syncthreads();
  else
    __syncwarp();
  *out = 1;
}

TEST_F(EmulatedCuda, SaysThatABlockCannotGoOn) {
  const Pinned<int> found(1);
  EXPECT_DEATH(
      {
        cudaStream_t own = nullptr;
        cudaStreamCreate(&own);
        stream_ = own;
        run(dim3(1), dim3(64), 0, pass_each_other, found);
      },
      "cannot go on");
}

__global__ void nothing() {}

TEST_F(EmulatedCuda, RefusesWhatHardwareRefuses) {
  EXPECT_EQ(start(dim3(1), dim3(1025), 0, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(dim3(0), dim3(1), 0, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start(dim3(1), dim3(1), 60 << 10, nothing), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10), cudaSuccess);
  EXPECT_EQ(start(dim3(1), dim3(1), 60 << 10, nothing), cudaSuccess);
  cudaSetDevice(1);
  EXPECT_EQ(start(dim3(1), dim3(1), 0, nothing), cudaErrorInvalidResourceHandle);
  cudaSetDevice(0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);

  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 1000), cudaSuccess);
  std::vector<char> host(4096);
  EXPECT_EQ(cudaMemcpyAsync(device, host.data(), 4096, cudaMemcpyDefault, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device, host.data(), 1000, cudaMemcpyDeviceToDevice, stream_), cudaErrorInvalidValue);
  ASSERT_EQ(cudaMemcpy(host.data(), device, 1000, cudaMemcpyDefault), cudaSuccess);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(static_cast<unsigned char>(host[static_cast<std::size_t>(i)]), 0xCB);
  EXPECT_EQ(cudaFree(static_cast<char*>(device) + 512), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&device, free + 1), cudaErrorMemoryAllocation);
}

TEST_F(EmulatedCuda, CapturesAreLeftAlone) {
  Pinned<int> found(256);
  cudaEvent_t event = nullptr;
  cudaStream_t other = nullptr;
  cudaEventCreate(&event);
  cudaStreamCreate(&other);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(start(dim3(1), dim3(256), 256 * sizeof(int), turn_around, found, 1), cudaSuccess);
  cudaEventRecord(event, stream_);
  EXPECT_EQ(cudaStreamWaitEvent(other, event), cudaSuccess);  // joins
  EXPECT_EQ(cudaMemsetAsync(found, 0, sizeof(int), other), cudaSuccess);
  cudaEventRecord(event, other);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&made, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(found[5], 0);
  EXPECT_EQ(cudaGraphLaunch(made, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[5], 251);
  cudaGraphExecDestroy(made);
  cudaGraphDestroy(graph);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);

  // Work on another stream that was not joined to the capturing stream.
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaEventRecord(event, stream_);
  EXPECT_EQ(cudaStreamWaitEvent(other, event), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(found, 0, sizeof(int), other), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamWaitEvent(other, event), cudaErrorCapturedEvent);
  cudaStreamDestroy(other);
  cudaEventDestroy(event);
}

TEST_F(EmulatedCuda, ProductsAreProducts) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {17, 5, 300}, {130, 259, 513}}) {
    const auto size = [](int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); };
    const Pinned<float> a(size(m, k)), b(size(k, n)), c(size(m, n));
    for (int i = 0; i < m * k; ++i) a[i] = static_cast<float>(i * 7 % 13 - 6);
    for (int i = 0; i < k * n; ++i) b[i] = static_cast<float>(i * 5 % 11 - 5);
    for (int i = 0; i < m * n; ++i) c[i] = 1;
    cublasLtMatmulDesc_t description = nullptr;
    cublasLtMatrixLayout_t left = nullptr, right = nullptr, result = nullptr;
    cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transpose = CUBLAS_OP_T;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 1), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatrixLayoutCreate(&left, CUDA_R_32F, static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(m), k);
    cublasLtMatrixLayoutCreate(&right, CUDA_R_32F, static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(n), k);
    cublasLtMatrixLayoutCreate(&result, CUDA_R_32F, static_cast<std::uint64_t>(m), static_cast<std::uint64_t>(n), m);
    const float alpha = 2, beta = 3;
    EXPECT_EQ(cublasLtMatmul(handle, description, &alpha, a, left, b, right, &beta, c, result, c, result, nullptr, nullptr, 0, stream_),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
        ASSERT_EQ(c[column * m + row], 2 * sum + 3) << row << " " << column;
      }
    cublasLtMatrixLayoutDestroy(left);
    cublasLtMatrixLayoutDestroy(right);
    cublasLtMatrixLayoutDestroy(result);
    cublasLtMatmulDescDestroy(description);
  }
  cublasLtDestroy(handle);
}

}  // namespace
