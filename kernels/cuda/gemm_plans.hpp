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

/// c[m, n] = op(a) · op(b) (+ addend, or + c if it accumulates), all row-major in device memory; op transposes if asked. The
/// operands are f32 or bf16, the result is f32 or of their type.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  DType operands = DType::f32, result = DType::f32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* addend = nullptr;                           // has the layout of c; not together with `accumulate`
  const float* bias = nullptr;                            // [n], added to every row; not together with either
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // elements from row to row; 0: rows are contiguous

  [[nodiscard]] std::int64_t stride_of_a() const noexcept { return a_stride != 0 ? a_stride : transpose_a ? m : k; }
  [[nodiscard]] std::int64_t stride_of_b() const noexcept { return b_stride != 0 ? b_stride : transpose_b ? k : n; }
  [[nodiscard]] std::int64_t stride_of_c() const noexcept { return c_stride != 0 ? c_stride : n; }
};

/// The matrix products of one device context, by cuBLASLt. Descriptors and the algorithm of a product are created when it is
/// first seen, and cached, so that later calls do not allocate. Only algorithms that add in a fixed order are used. Thread: the
/// context's.
class GemmPlans {
 public:
  /// `workspace` bytes of device memory for the algorithms; `tf32`: f32 operands may be rounded to tf32; `choices`: the file of
  /// GemmAutotuneCache, or empty for the library's first proposal. Uses the thread's current device.
  GemmPlans(Device device, std::size_t workspace, bool tf32, const std::string& choices);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  /// Enqueues the product on the context's compute stream. When a product is first seen and there is a file of choices, this
  /// measures the algorithms, which blocks and allocates; not while a graph is captured. m or n of zero does nothing. Returns
  /// whether the bias, if any, was added.
  bool multiply(const ExecutionContext& context, const char* component, const Product& product);

 private:
  /// Everything that the choice of an algorithm depends on.
  using Key = std::array<std::int64_t, 17>;
  struct HashKey {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Plan;
  struct Candidates;

  [[nodiscard]] Key key_of(const Product& product) const;
  [[nodiscard]] std::string text_of(const Key& key) const;
  void set_bias(const char* component, const Plan& plan, const float* bias) const;
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const ExecutionContext& context, const char* component, const Product& product,
                                                const Key& key);
  [[nodiscard]] Candidates propose(const char* component, const Plan& plan, const Key& key) const;
  void choose(const ExecutionContext& context, const char* component, const Product& product, const Key& key, const Candidates& candidates,
              Plan& plan);
  /// The fastest of the candidates with its microseconds; empty if there is no memory to try them.
  [[nodiscard]] std::optional<std::string> measure(const ExecutionContext& context, const char* component, const Product& product,
                                                   const Candidates& candidates, Plan& plan) const;
  [[nodiscard]] cublasStatus_t run(const ExecutionContext& context, const Product& product, const Plan& plan) const;

  std::size_t workspace_bytes_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<Plan>, HashKey> plans_;
  std::optional<GemmAutotuneCache> choices_;
  std::string place_;  // device and library, a part of the file's keys
};

}  // namespace millrace::kernels::cuda
