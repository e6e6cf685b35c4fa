#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "kernels/base/device.hpp"
#include "kernels/base/dtype.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/cuda/gemm_autotune_cache.hpp"

namespace millrace::kernels::cuda {

/// c[m, n] = op(a) · op(b) (+ addend, or + c where it is accumulated), all row-major in device memory; op transposes where asked. The
/// operands are f32 or bf16, the result f32 or of their type.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  DType operands = DType::f32, result = DType::f32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* addend = nullptr;                           // lies as c does; not with `accumulate`
  const float* bias = nullptr;                            // [n], added to every row; with neither of both
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // from row to row, in elements; 0: nothing between rows

  [[nodiscard]] std::int64_t stride_of_a() const noexcept { return a_stride != 0 ? a_stride : transpose_a ? m : k; }
  [[nodiscard]] std::int64_t stride_of_b() const noexcept { return b_stride != 0 ? b_stride : transpose_b ? k : n; }
  [[nodiscard]] std::int64_t stride_of_c() const noexcept { return c_stride != 0 ? c_stride : n; }
};

/// The matrix products of one queue, by cuBLASLt. What a product needs (descriptions, the algorithm) is made when it is first seen and
/// kept: from then on nothing allocates. Only algorithms that add in a fixed order. Thread: the queue's.
class GemmPlans {
 public:
  /// `workspace` bytes of device memory for the algorithms; `tf32`: f32 operands may be rounded to it; `choices`: the file of
  /// GemmAutotuneCache, or empty for the library's first proposal. On the thread's current device.
  GemmPlans(Device device, std::size_t workspace, bool tf32, const std::string& choices);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  /// Queues the product on the context's compute lane. The first time, and with a file of choices, it measures the algorithms, which waits
  /// for the device and allocates; not while a graph is captured. m or n of zero does nothing.
  /// Returns whether the bias, if there is one, was added.
  bool multiply(const ExecutionContext& context, const char* who, const Product& product);

 private:
  /// All that an algorithm is chosen by.
  using Key = std::array<std::int64_t, 17>;
  struct HashKey {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Plan;
  struct Candidates;

  [[nodiscard]] Key key_of(const Product& product) const;
  [[nodiscard]] std::string text_of(const Key& key) const;
  void set_bias(const char* who, const Plan& plan, const float* bias) const;
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const ExecutionContext& context, const char* who, const Product& product, const Key& key);
  [[nodiscard]] Candidates propose(const char* who, const Plan& plan, const Key& key) const;
  void choose(const ExecutionContext& context, const char* who, const Product& product, const Key& key, const Candidates& candidates,
              Plan& plan);
  /// The fastest of the candidates and its microseconds; nothing where there is no memory to try them in.
  [[nodiscard]] std::optional<std::string> measure(const ExecutionContext& context, const char* who, const Product& product,
                                                   const Candidates& candidates, Plan& plan) const;
  [[nodiscard]] cublasStatus_t run(const ExecutionContext& context, const Product& product, const Plan& plan) const;

  std::size_t workspace_bytes_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<Plan>, HashKey> plans_;
  std::optional<GemmAutotuneCache> choices_;
  std::string place_;  // device and library, in the keys of the file
};

}  // namespace millrace::kernels::cuda
