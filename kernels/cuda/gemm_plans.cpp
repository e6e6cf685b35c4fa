#include "kernels/cuda/gemm_plans.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/plain_product.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* own_component = "kernels.products";
constexpr int kMostCandidates = 8;
constexpr int kWarmUps = 3, kTimedRuns = 10;

/// Excludes algorithms that add up sums by atomics, which is not deterministic.
constexpr std::uint32_t kReductions =
    CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

/// Frees cuBLASLt's descriptors.
struct Destroy {
  void operator()(cublasLtMatmulDescOpaque_t* description) const noexcept { cublasLtMatmulDescDestroy(description); }
  void operator()(cublasLtMatrixLayoutOpaque_t* layout) const noexcept { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const noexcept { cublasLtMatmulPreferenceDestroy(preference); }
};
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

cudaDataType_t type_of(DType dtype) { return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF; }

/// A row-major matrix in the library's column-major view: transposed.
Layout layout_of(const char* component, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                                          std::max(stride, columns)),
               component, "matrix layout");
  return Layout(layout);
}

/// Capped at the alignment that the library asks for: a higher alignment varies between layouts, and the algorithm must not.
std::int64_t alignment_of(const void* address) {
  return std::int64_t{1} << std::min(std::countr_zero(reinterpret_cast<std::uintptr_t>(address)), 4);
}

/// The matrix that the product is added to: c, the addend, or none.
const void* added_to(const Product& product) { return product.addend != nullptr && !product.accumulate ? product.addend : product.c; }
bool adds(const Product& product) { return product.accumulate || product.addend != nullptr; }

std::string text_of_algorithm(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t part : algorithm.data) text += fmt::format("{:016x}", part);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algorithm_of(std::string_view text) {
  cublasLtMatmulAlgo_t algorithm = {};
  for (std::uint64_t& part : algorithm.data) {
    const std::string_view digits = text.substr(0, 16);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), part, 16);
    if (error != std::errc{} || digits.size() != 16 || end != digits.data() + 16) return std::nullopt;
    text.remove_prefix(16);
  }
  return algorithm;
}

/// Device memory for measuring algorithms; empty if the device has none left.
class MeasuringMemory {
 public:
  explicit MeasuringMemory(std::size_t bytes) {
    if (cudaMalloc(&memory_, bytes) == cudaSuccess) return;
    memory_ = nullptr;
    static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would return
  }
  ~MeasuringMemory() { cudaFree(memory_); }
  MeasuringMemory(const MeasuringMemory&) = delete;
  MeasuringMemory& operator=(const MeasuringMemory&) = delete;
  [[nodiscard]] void* get() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
};

class Event {
 public:
  explicit Event(const char* component) { check_cuda(cudaEventCreate(&event_), component, "event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

struct GemmPlans::Plan {
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm = {};
  bool plain = false;     // the library has no algorithm
  bool epilogue = false;  // the bias is added in the epilogue
};

struct GemmPlans::Candidates {
  std::array<cublasLtMatmulAlgo_t, kMostCandidates> algorithms = {};
  std::size_t count = 0;
};

std::size_t GemmPlans::HashKey::operator()(const Key& key) const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::int64_t part : key) hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9e3779b97f4a7c15U, hash ^= hash >> 32;
  return hash;
}

GemmPlans::GemmPlans(Device device, std::size_t workspace, bool tf32, const std::string& choices)
    : workspace_bytes_(workspace), tf32_(tf32) {
  if (!choices.empty()) {
    cudaDeviceProp properties = {};
    check_cuda(cudaGetDeviceProperties(&properties, device.index), own_component, "device properties");
    place_ = fmt::format("{} cublasLt {}", properties.name, cublasLtGetVersion());
    choices_.emplace(choices);
  }
  check_cublas(cublasLtCreate(&handle_), own_component, "cublasLt");
  if (workspace == 0) return;
  if (const cudaError_t status = cudaMalloc(&workspace_, workspace); status != cudaSuccess) {
    cublasLtDestroy(handle_);
    static_cast<void>(cudaGetLastError());
    fail(ExitCode::memory, own_component, "{} bytes of device memory for products: {}", workspace, cudaGetErrorString(status));
  }
}

GemmPlans::~GemmPlans() {
  plans_.clear();
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

GemmPlans::Key GemmPlans::key_of(const Product& product) const {
  const bool rounds = tf32_ && product.operands == DType::f32;
  return {product.m,
          product.n,
          product.k,
          product.stride_of_a(),
          product.stride_of_b(),
          product.stride_of_c(),
          product.transpose_a ? 1 : 0,
          product.transpose_b ? 1 : 0,
          static_cast<std::int64_t>(product.operands),
          static_cast<std::int64_t>(product.result),
          rounds ? 1 : 0,
          !adds(product)       ? 0
          : product.accumulate ? 1
                               : 2,
          alignment_of(product.a),
          alignment_of(product.b),
          alignment_of(product.c),
          alignment_of(added_to(product)),
          product.bias != nullptr ? 1 : 0};
}

std::string GemmPlans::text_of(const Key& key) const {
  return fmt::format("{} workspace {} {}", place_, workspace_bytes_, fmt::join(key, " "));
}

bool GemmPlans::multiply(const ExecutionContext& context, const char* component, const Product& product) {
  if (product.m <= 0 || product.n <= 0) return true;
  if (product.k <= 0) {
    if (!product.accumulate) plain_product(context, component, product);
    return false;
  }
  const Key key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) found = plans_.emplace(key, make_plan(context, component, product, key)).first;
  const Plan& plan = *found->second;
  if (plan.plain) {
    plain_product(context, component, product);
    return false;
  }
  if (plan.epilogue) set_bias(component, plan, product.bias);
  check_cublas(run(context, product, plan), component, "matrix product");
  return plan.epilogue;
}

void GemmPlans::set_bias(const char* component, const Plan& plan, const float* bias) const {
  check_cublas(cublasLtMatmulDescSetAttribute(plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), component,
               "bias");
}

std::unique_ptr<GemmPlans::Plan> GemmPlans::make_plan(const ExecutionContext& context, const char* component, const Product& product,
                                                      const Key& key) {
  auto plan = std::make_unique<Plan>();
  cublasLtMatmulDesc_t description = nullptr;
  const bool rounds = tf32_ && product.operands == DType::f32;
  check_cublas(cublasLtMatmulDescCreate(&description, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F), component,
               "product description");
  plan->description.reset(description);
  // The library sees every matrix transposed, so cᵀ = op(b)ᵀ · op(a)ᵀ is computed: b comes first.
  const cublasOperation_t first = product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_cublas(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), component, "transpose");
  check_cublas(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), component, "transpose");
  const auto operand = [&](std::int64_t rows, std::int64_t columns, bool transpose, std::int64_t stride) {
    return layout_of(component, product.operands, transpose ? columns : rows, transpose ? rows : columns, stride);
  };
  plan->a = operand(product.m, product.k, product.transpose_a, product.stride_of_a());
  plan->b = operand(product.k, product.n, product.transpose_b, product.stride_of_b());
  plan->c = layout_of(component, product.result, product.m, product.n, product.stride_of_c());
  Candidates candidates;
  if (product.bias != nullptr) {
    // The bias runs along the rows of cᵀ, the library's view. The library may have no algorithm for an f32 bias of a bf16 result.
    const cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS, none = CUBLASLT_EPILOGUE_DEFAULT;
    const auto type = static_cast<std::int32_t>(CUDA_R_32F);
    check_cublas(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias), component, "epilogue");
    check_cublas(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), component,
                 "bias type");
    set_bias(component, *plan, product.bias);
    candidates = propose(component, *plan, key);
    plan->epilogue = candidates.count > 0;
    if (!plan->epilogue)
      check_cublas(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &none, sizeof none), component, "epilogue");
  }
  if (!plan->epilogue) candidates = propose(component, *plan, key);
  if (candidates.count == 0)
    plan->plain = true;
  else
    choose(context, component, product, key, candidates, *plan);
  return plan;
}

GemmPlans::Candidates GemmPlans::propose(const char* component, const Plan& plan, const Key& key) const {
  cublasLtMatmulPreference_t created = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&created), component, "preference");
  const Preference preference(created);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof value), component, "preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key[13]));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key[12]));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key[15]));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key[14]));
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                                               plan.c.get(), created, kMostCandidates, results.data(), &count);
  Candidates candidates;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_INVALID_VALUE && key[16] != 0)) return candidates;
  check_cublas(status, component, "choice of an algorithm");
  for (const auto& result : std::span(results).first(static_cast<std::size_t>(count))) {
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_bytes_) continue;
    std::uint32_t reduction = 0;
    std::size_t written = 0;
    check_cublas(
        cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction, sizeof reduction, &written),
        component, "algorithm's reduction");
    if ((reduction & ~kReductions) == 0) candidates.algorithms[candidates.count++] = result.algo;
  }
  return candidates;
}

void GemmPlans::choose(const ExecutionContext& context, const char* component, const Product& product, const Key& key,
                       const Candidates& candidates, Plan& plan) {
  plan.algorithm = candidates.algorithms[0];
  if (!choices_ || candidates.count == 1) return;
  const std::string name = text_of(key);
  std::optional<std::string> choice = choices_->find(name);
  if (!choice && !state_of(context).capturing) {
    choice = measure(context, component, product, candidates, plan);
    // A choice that could not be measured is cached too: there may be memory the next time, and runs must repeat.
    choice = choices_->keep(name, choice.value_or(text_of_algorithm(candidates.algorithms[0])));
  }
  plan.algorithm = candidates.algorithms[0];
  if (!choice) return;
  if (const auto algorithm = algorithm_of(*choice)) plan.algorithm = *algorithm;
}

std::optional<std::string> GemmPlans::measure(const ExecutionContext& context, const char* component, const Product& product,
                                              const Candidates& candidates, Plan& plan) const {
  // The product itself overwrites the result of the measurement, unless it accumulates.
  const std::size_t bytes = static_cast<std::size_t>(product.accumulate ? product.m * product.stride_of_c() : 1) * size_of(product.result);
  const MeasuringMemory memory(bytes);
  if (memory.get() == nullptr) return std::nullopt;
  Product trial = product;
  if (product.accumulate) trial.c = memory.get();
  const Event begin(component), end(component);
  const cudaStream_t lane = state_of(context).lane(StreamKind::compute);
  const cublasLtMatmulAlgo_t* fastest = nullptr;
  float least = 0;
  for (const auto& algorithm : std::span(candidates.algorithms).first(candidates.count)) {
    plan.algorithm = algorithm;
    bool works = true;
    for (int i = 0; i < kWarmUps && works; ++i) works = run(context, trial, plan) == CUBLAS_STATUS_SUCCESS;
    if (!works) {
      static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would return
      continue;
    }
    check_cuda(cudaEventRecord(begin.get(), lane), component, "event");
    for (int i = 0; i < kTimedRuns; ++i) check_cublas(run(context, trial, plan), component, "matrix product");
    check_cuda(cudaEventRecord(end.get(), lane), component, "event");
    check_cuda(cudaEventSynchronize(end.get()), component, "measuring of a product");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), component, "time of a product");
    if (fastest != nullptr && milliseconds >= least) continue;
    fastest = &algorithm;
    least = milliseconds;
  }
  if (fastest == nullptr) return std::nullopt;
  return fmt::format("{} {:.2f}", text_of_algorithm(*fastest), least * 1000 / kTimedRuns);
}

cublasStatus_t GemmPlans::run(const ExecutionContext& context, const Product& product, const Plan& plan) const {
  const float one = 1, beta = adds(product) ? 1.0F : 0.0F;
  return cublasLtMatmul(handle_, plan.description.get(), &one, product.b, plan.b.get(), product.a, plan.a.get(), &beta, added_to(product),
                        plan.c.get(), product.c, plan.c.get(), &plan.algorithm, workspace_, workspace_bytes_,
                        state_of(context).lane(StreamKind::compute));
}

}  // namespace millrace::kernels::cuda
