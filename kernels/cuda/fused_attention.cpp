#include "kernels/cuda/fused_attention.hpp"

#ifdef MILLRACE_CUDNN
#include <cudnn_graph.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_kernels.hpp"
#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/status.hpp"

// The graphs are exactly those that cuDNN's fused attention engines recognise: operation by operation, with the types between
// them (cuDNN developer guide, "Graph API: fused flash attention fprop" and "bprop"). An equivalent graph in another form finds
// no engine.
namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.fused_attention";
/// Older versions are refused: 9.10.0 computes wrong results, before 9.10 a mask is not −∞, and up to 9.15 backward reads past
/// rows that are not whole tiles of 128 (release notes).
constexpr std::size_t kOldestVersion = 91600;
constexpr std::int64_t kShortestRow = 64, kWidestHead = 128, kHeadStep = 8;
/// Required alignment of cuDNN's scratch and of a tensor's address.
constexpr std::size_t kScratchAlignment = 256, kTensorAlignment = 16;
/// Backward stores a bf16 matrix of S × S for every head that it processes at once; they must fit into this.
constexpr std::size_t kSquareBytes = 256U << 20;
constexpr std::size_t kSmallWorkspace = 1U << 20;  // for counters and descriptions
constexpr std::int64_t kTile = 128;
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // per tensor, so that 32-bit indices suffice
constexpr std::int64_t kElement = 2;                           // bytes per bf16

using Problem = FusedAttentions::Problem;

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment; }
constexpr std::int64_t whole_tiles(std::int64_t tokens) { return (tokens + kTile - 1) / kTile * kTile; }

// -- descriptors --------------------------------------------------------------------------------------------------------------------------

/// No plan can be made. Caught in this file.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string words_of(cudnnStatus_t status, const char* what) {
  std::array<char, 512> message = {};
  cudnnGetLastErrorString(message.data(), message.size());
  message.back() = '\0';
  return fmt::format("{}: {} {}", what, cudnnGetErrorString(status), message.data());
}

void wanted(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refusal(words_of(status, what));
}

/// Reference to a descriptor; valid for the descriptor's lifetime, even if it is moved.
using Handle = cudnnBackendDescriptor_t;

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { wanted(cudnnBackendCreateDescriptor(type, &descriptor_), "descriptor"); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) static_cast<void>(cudnnBackendDestroyDescriptor(descriptor_));
  }
  [[nodiscard]] Handle get() const noexcept { return descriptor_; }

  template <class Value>
  Descriptor& set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, std::span<const Value> values) {
    wanted(cudnnBackendSetAttribute(descriptor_, attribute, type, static_cast<std::int64_t>(values.size()), values.data()), "attribute");
    return *this;
  }
  template <class Value>
  Descriptor& set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const Value& value) {
    return set(attribute, type, std::span(&value, 1));
  }
  Descriptor& link(cudnnBackendAttributeName_t attribute, Handle other) { return set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, other); }
  [[nodiscard]] cudnnStatus_t try_finalize() { return cudnnBackendFinalize(descriptor_); }
  Descriptor& finalize(const char* what) {
    wanted(try_finalize(), what);
    return *this;
  }
  /// Returns how many of `values` were returned.
  template <class Value>
  [[nodiscard]] std::int64_t read(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, std::span<Value> values) const {
    std::int64_t count = 0;
    wanted(cudnnBackendGetAttribute(descriptor_, attribute, type, static_cast<std::int64_t>(values.size()), &count, values.data()),
           "attribute's value");
    return count;
  }

 private:
  Handle descriptor_ = nullptr;
};

// -- graphs -------------------------------------------------------------------------------------------------------------------------------

using Four = std::array<std::int64_t, 4>;

/// [rows, heads, tokens, elements] with the stride of each.
struct Layout {
  Four sizes, strides;
};
Layout packed(std::int64_t rows, std::int64_t heads, std::int64_t tokens, std::int64_t elements) {
  return {{rows, heads, tokens, elements}, {heads * tokens * elements, tokens * elements, elements, 1}};
}
/// Layout of our tensors [T, token_heads, D].
Layout by_token(const Problem& problem, std::int64_t heads, std::int64_t token_heads) {
  const std::int64_t token = token_heads * problem.width;
  return {{problem.rows, heads, problem.sequence, problem.width}, {problem.sequence * token, problem.width, token, 1}};
}
Layout transposed(Layout layout) {
  std::swap(layout.sizes[2], layout.sizes[3]);
  std::swap(layout.strides[2], layout.strides[3]);
  return layout;
}

/// Tensors whose address is passed when a plan runs. Tensors between operations have higher numbers.
enum Name : std::int64_t { kQ = 1, kK, kV, kO, kSums, kOutputGradient, kDelta, kQGradient, kKGradient, kVGradient, kFirstUnnamed = 100 };

struct Constant {
  std::int64_t name;
  float value;
};

/// Owns all descriptors that the operations refer to.
class OperationGraph {
 public:
  Handle given(Name name, cudnnDataType_t type, const Layout& layout) { return tensor(name, type, layout, false, false); }
  Handle between(const Layout& layout, cudnnDataType_t type = CUDNN_DATA_FLOAT) { return tensor(next_++, type, layout, true, false); }
  /// A number that is passed to a kernel by value.
  Handle constant(float value) {
    constants_.push_back({next_, value});
    return tensor(next_++, CUDNN_DATA_FLOAT, packed(1, 1, 1, 1), false, true);
  }

  Handle product(Handle a, Handle b, Handle c) {
    const Handle how = keep(std::move(Descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR)
                                          .set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
                                          .set(CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 0.0)
                                          .finalize("matrix product")));
    operation(std::move(Descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
                            .link(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
                            .link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
                            .link(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
                            .link(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
                            .finalize("operation matrix product")));
    return c;
  }

  /// y = mode(x), mode(x, b) or mode(x, b, t), with broadcasting; an operand that the mode does not take is null.
  Handle pointwise(cudnnPointwiseMode_t mode, Handle x, Handle b, Handle t, Handle y, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                   std::int64_t axis = -1) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    how.finalize("pointwise");
    Descriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(how)))
        .link(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1.0F)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1.0F);
    if (b != nullptr) made.link(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t != nullptr) made.link(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    made.finalize("operation pointwise");
    operation(std::move(made));
    return y;
  }
  Handle pointwise(cudnnPointwiseMode_t mode, Handle x, Handle b, Handle y) { return pointwise(mode, x, b, nullptr, y); }

  /// Reduces over the axes of which y has one element.
  Handle reduce(cudnnReduceTensorOp_t how_to, Handle x, Handle y) {
    const Handle how = keep(std::move(Descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
                                          .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
                                          .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how_to)
                                          .finalize("reduction")));
    operation(std::move(Descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
                            .link(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
                            .link(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
                            .link(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
                            .finalize("operation reduction")));
    return y;
  }

  /// The same elements with y's sizes and strides, which expresses a transposition.
  Handle reshape(Handle x, Handle y) {
    operation(std::move(Descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
                            .link(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x)
                            .link(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y)
                            .finalize("operation reshape")));
    return y;
  }

  /// All operations, in the order of their creation.
  Handle finish(cudnnHandle_t library) {
    return keep(std::move(Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                              .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library)
                              .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<const Handle>(operations_))
                              .finalize("operation graph")));
  }
  [[nodiscard]] const std::vector<Constant>& constants() const noexcept { return constants_; }

 private:
  Handle keep(Descriptor&& descriptor) { return kept_.emplace_back(std::move(descriptor)).get(); }
  void operation(Descriptor&& descriptor) { operations_.push_back(keep(std::move(descriptor))); }
  Handle tensor(std::int64_t name, cudnnDataType_t type, const Layout& layout, bool is_virtual, bool by_value) {
    return keep(std::move(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
                              .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name)
                              .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
                              .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(layout.sizes))
                              .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(layout.strides))
                              .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, static_cast<std::int64_t>(kTensorAlignment))
                              .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual)
                              .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value)
                              .finalize("tensor")));
  }

  std::deque<Descriptor> kept_;
  std::vector<Handle> operations_;
  std::vector<Constant> constants_;
  std::int64_t next_ = kFirstUnnamed;
};

Layout squares(const Problem& problem) { return packed(problem.rows, problem.heads, problem.sequence, problem.sequence); }
/// One number per query. Before 9.26 cuDNN requires this layout for such tensors, whatever strides are given.
Layout columns(const Problem& problem) { return packed(problem.rows, problem.heads, problem.sequence, 1); }

/// Scores with −∞ where the key comes after the query.
Handle masked(OperationGraph& graph, const Problem& problem, Handle scores) {
  if (!problem.causal) return scores;
  const Layout square = squares(problem);
  const auto place = [&](std::int64_t axis) {
    return graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, nullptr, graph.between(square, CUDNN_DATA_INT32), CUDNN_DATA_FLOAT,
                           axis);
  };
  const Handle query = place(2), key = place(3);
  const Handle seen =
      graph.pointwise(CUDNN_POINTWISE_CMP_GE, query, key, nullptr, graph.between(square, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
  return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scores, graph.constant(-std::numeric_limits<float>::infinity()), seen,
                         graph.between(square));
}

/// o = softmax(mask(q·kᵀ · scale)) · v and the logarithms of the sums.
void describe_forward(OperationGraph& graph, const Problem& problem) {
  const Layout square = squares(problem), column = columns(problem);
  const Layout queries = by_token(problem, problem.heads, problem.token_heads);
  const Layout keys = by_token(problem, problem.kv_heads, problem.token_kv_heads);
  const Handle q = graph.given(kQ, CUDNN_DATA_BFLOAT16, queries);
  const Handle k = graph.given(kK, CUDNN_DATA_BFLOAT16, transposed(keys));
  const Handle v = graph.given(kV, CUDNN_DATA_BFLOAT16, keys);
  const Handle o = graph.given(kO, CUDNN_DATA_BFLOAT16, queries);
  const Handle sums = graph.given(kSums, CUDNN_DATA_FLOAT, column);
  Handle scores = graph.product(q, k, graph.between(square));
  scores = graph.pointwise(CUDNN_POINTWISE_MUL, scores, graph.constant(problem.scale), graph.between(square));
  scores = masked(graph, problem, scores);
  const Handle most = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, graph.between(column));
  const Handle below = graph.pointwise(CUDNN_POINTWISE_SUB, scores, most, graph.between(square));
  const Handle exponentials = graph.pointwise(CUDNN_POINTWISE_EXP, below, nullptr, graph.between(square));
  const Handle sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, graph.between(column));
  const Handle logarithm = graph.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, graph.between(column));
  graph.pointwise(CUDNN_POINTWISE_ADD, most, logarithm, sums);
  const Handle probabilities = graph.pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, graph.between(square, CUDNN_DATA_BFLOAT16));
  graph.product(probabilities, v, o);
}

/// dq, dk, dv. dq is the direct result of its product. In the other known form parts of it are added up in fp32 memory by atomics
/// in any order, and its engines do not report this as nondeterministic. This form stores the matrices dS instead, and its
/// results repeat on GPUs of compute capability 9 (cudnn-frontend, "deterministic algorithm" of the attention backward;
/// Transformer Engine pull request 992).
void describe_backward(OperationGraph& graph, const Problem& problem) {
  const Layout square = squares(problem), column = columns(problem);
  const Layout queries = by_token(problem, problem.heads, problem.token_heads);
  const Layout keys = by_token(problem, problem.kv_heads, problem.token_kv_heads);
  const Layout all_heads = packed(problem.rows, problem.heads, problem.sequence, problem.width);
  const Handle q = graph.given(kQ, CUDNN_DATA_BFLOAT16, queries);
  const Handle k = graph.given(kK, CUDNN_DATA_BFLOAT16, transposed(keys));
  const Handle v = graph.given(kV, CUDNN_DATA_BFLOAT16, transposed(keys));
  const Handle o = graph.given(kO, CUDNN_DATA_BFLOAT16, queries);
  const Handle d_o = graph.given(kOutputGradient, CUDNN_DATA_BFLOAT16, queries);
  const Handle sums = graph.given(kSums, CUDNN_DATA_FLOAT, column);
  const Handle delta = graph.given(kDelta, CUDNN_DATA_FLOAT, column);
  const Handle dq = graph.given(kQGradient, CUDNN_DATA_BFLOAT16, queries);
  const Handle dk = graph.given(kKGradient, CUDNN_DATA_BFLOAT16, keys);
  const Handle dv = graph.given(kVGradient, CUDNN_DATA_BFLOAT16, keys);
  const Handle scale = graph.constant(problem.scale);
  // Adds the contributions of all query heads of a group to their key/value head.
  const auto into_keys = [&](Handle turned, Handle with, Handle result) {
    if (problem.heads == problem.kv_heads) {
      graph.product(turned, with, result);
      return;
    }
    const Handle every = graph.product(turned, with, graph.between(all_heads, CUDNN_DATA_BFLOAT16));
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, every, result);
  };

  // delta = Σ dO ∘ o; the engines expect a factor in this expression.
  const Handle products = graph.pointwise(CUDNN_POINTWISE_MUL, d_o, o, graph.between(all_heads));
  const Handle dots = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, graph.between(column));
  graph.pointwise(CUDNN_POINTWISE_MUL, dots, graph.constant(1.0F), delta);

  // P = exp(mask(q·kᵀ · scale − sums)), dv = Pᵀ·dO
  Handle scores = graph.product(q, k, graph.between(square));
  scores = graph.pointwise(CUDNN_POINTWISE_MUL, scores, scale, graph.between(square));
  scores = graph.pointwise(CUDNN_POINTWISE_SUB, scores, sums, graph.between(square));
  scores = masked(graph, problem, scores);
  const Handle probabilities = graph.pointwise(CUDNN_POINTWISE_EXP, scores, nullptr, graph.between(square));
  into_keys(graph.reshape(probabilities, graph.between(transposed(square), CUDNN_DATA_BFLOAT16)), d_o, dv);

  // dS = (dO·vᵀ − delta) ∘ P · scale, dk = dSᵀ·q, dq = dS·k
  Handle d_s = graph.product(d_o, v, graph.between(square));
  d_s = graph.pointwise(CUDNN_POINTWISE_SUB, d_s, delta, graph.between(square));
  d_s = graph.pointwise(CUDNN_POINTWISE_MUL, d_s, probabilities, graph.between(square));
  d_s = graph.pointwise(CUDNN_POINTWISE_MUL, d_s, scale, graph.between(square));
  into_keys(graph.reshape(d_s, graph.between(transposed(square), CUDNN_DATA_BFLOAT16)), q, dk);
  graph.product(d_s, graph.reshape(k, graph.between(keys)), dq);
}

// -- plans --------------------------------------------------------------------------------------------------------------------------------

/// The library's proposals, best first. None if it does not support the graph in this mode.
std::vector<Descriptor> propose(Handle graph, cudnnBackendHeurMode_t mode, std::string& why) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<Descriptor> proposals;
  if (const cudnnStatus_t status = heuristics.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
    why = words_of(status, "heuristics");
    return proposals;
  }
  const std::int64_t count = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<Handle>());
  std::vector<Handle> handles;
  for (std::int64_t i = 0; i < count; ++i) handles.push_back(proposals.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (count == 0) return proposals;
  const std::int64_t found = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span<Handle>(handles));
  while (static_cast<std::int64_t>(proposals.size()) > found) proposals.pop_back();
  return proposals;
}

bool repeats(const Descriptor& proposal) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  Handle handle = engine.get();
  static_cast<void>(proposal.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&handle, 1)));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes = {};
  const std::int64_t count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span<cudnnBackendNumericalNote_t>(notes));
  const auto known = std::span(notes).first(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, notes.size())));
  return std::ranges::find(known, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == known.end();
}

/// For a thread that captures a stream: loading kernels is not captured and must not end the capture.
class OutsideCapture {
 public:
  OutsideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

/// Members are destroyed from last to first, since each may refer to those before it.
struct FusedAttentions::Plan {
  OperationGraph graph;
  std::optional<Descriptor> proposal, execution;
  std::size_t workspace = 0;

  struct Address {
    std::int64_t name;
    const void* memory;
  };
  void run(cudnnHandle_t library, std::span<const Address> addresses, std::byte* scratch) const;
};

FusedAttentions::FusedAttentions(cudaStream_t lane) {
  int device = 0;
  check_cuda(cudaGetDevice(&device), component, "device");
  check_cuda(cudaDeviceGetAttribute(&generation_, cudaDevAttrComputeCapabilityMajor, device), component, "compute capability");
  if (const std::size_t version = cudnnGetVersion(); version < kOldestVersion) {
    refusal_ = fmt::format("cuDNN {}, expected {} or newer", version, kOldestVersion);
    return;
  }
  const OutsideCapture outside;
  cudnnStatus_t status = cudnnCreate(&handle_);
  if (status != CUDNN_STATUS_SUCCESS) {
    handle_ = nullptr;
    refusal_ = words_of(status, "cuDNN");
    return;
  }
  status = cudnnSetStream(handle_, lane);
  if (status == CUDNN_STATUS_SUCCESS) return;
  refusal_ = words_of(status, "lane");
  static_cast<void>(cudnnDestroy(handle_));
  handle_ = nullptr;
}

FusedAttentions::~FusedAttentions() {
  plans_.clear();
  if (handle_ != nullptr) static_cast<void>(cudnnDestroy(handle_));
}

const FusedAttentions::Plan* FusedAttentions::plan_of(const Problem& problem, std::size_t workspace) {
  if (handle_ == nullptr) return nullptr;
  auto found = plans_.find(problem);
  if (found == plans_.end()) {
    std::unique_ptr<Plan> plan;
    try {
      const OutsideCapture outside;
      plan = make_plan(problem, workspace);
    } catch (const Refusal& refusal) {
      refusal_ = refusal.what();
      static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would return
    }
    found = plans_.emplace(problem, std::move(plan)).first;
  }
  const Plan* plan = found->second.get();
  return plan != nullptr && plan->workspace <= workspace ? plan : nullptr;
}

std::unique_ptr<FusedAttentions::Plan> FusedAttentions::make_plan(const Problem& problem, std::size_t workspace) const {
  if (problem.backward && generation_ != 9)
    throw Refusal(fmt::format("deterministic backward on compute capability {}, expected 9", generation_));
  auto plan = std::make_unique<Plan>();
  if (problem.backward)
    describe_backward(plan->graph, problem);
  else
    describe_forward(plan->graph, problem);
  const Handle graph = plan->graph.finish(handle_);
  std::string why = "no engine";
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor& proposal : propose(graph, mode, why)) {
      if (!repeats(proposal)) {
        why = "a nondeterministic engine";
        continue;
      }
      Descriptor execution(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      execution.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_)
          .link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal.get());
      if (const cudnnStatus_t status = execution.try_finalize(); status != CUDNN_STATUS_SUCCESS) {
        why = words_of(status, "plan");
        continue;
      }
      std::int64_t bytes = 0;
      static_cast<void>(execution.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&bytes, 1)));
      if (bytes < 0 || static_cast<std::size_t>(bytes) > workspace) {
        why = fmt::format("a plan with a workspace of {} bytes, expected {} or less", bytes, workspace);
        continue;
      }
      plan->workspace = static_cast<std::size_t>(bytes);
      plan->proposal = std::move(proposal);
      plan->execution = std::move(execution);
      return plan;
    }
  throw Refusal(why);
}

void FusedAttentions::Plan::run(cudnnHandle_t library, std::span<const Address> addresses, std::byte* scratch) const {
  std::array<std::int64_t, 16> names = {};
  std::array<void*, 16> memory = {};
  std::size_t count = 0;
  const auto add = [&](std::int64_t name, const void* address) {
    names.at(count) = name;
    memory.at(count++) = const_cast<void*>(address);
  };
  for (const Address& address : addresses) add(address.name, address.memory);
  for (const Constant& constant : graph.constants()) add(constant.name, &constant.value);
  try {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(names).first(count))
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<void* const>(memory).first(count))
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, static_cast<void*>(scratch))
        .finalize("addresses");
    wanted(cudnnBackendExecute(library, execution->get(), pack.get()), "execution");
  } catch (const Refusal& refusal) {
    fail(ExitCode::device, component, "cuDNN's attention, {}", refusal.what());
  }
}

// -- calls --------------------------------------------------------------------------------------------------------------------------------

namespace {

Problem problem_of(const Shape& q, const Shape& k, AttentionOptions options, bool backward) {
  return {.rows = q[0] / options.sequence,
          .sequence = options.sequence,
          .heads = q[1],
          .kv_heads = k[1],
          .width = q[2],
          .token_heads = q[1],
          .token_kv_heads = k[1],
          .scale = options.scale,
          .causal = options.causal,
          .backward = backward};
}

bool covers(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  const std::int64_t sequence = options.sequence;
  const bool plain =
      options.soft_cap == 0 && (options.window == 0 || options.window >= sequence) && (options.chunk == 0 || options.chunk >= sequence);
  return dtype == DType::bf16 && options.one_segment && plain && sequence >= kShortestRow && q[2] <= kWidestHead && q[2] % kHeadStep == 0 &&
         value_width(options, q[2]) == q[2] && q[0] > 0 && q[0] % sequence == 0 && q[1] % k[1] == 0 && q[0] * q[1] * q[2] < kMostElements;
}

std::size_t square_bytes(std::int64_t sequence) {
  return static_cast<std::size_t>(whole_tiles(sequence) * whole_tiles(sequence) * kElement);
}

/// How much backward processes at once: whole rows, or key/value heads of one row, each with its group of query heads. 0: not
/// even one.
struct Part {
  std::int64_t rows = 0, kv_heads = 0;
};
Part most_at_once(const Problem& whole) {
  const auto group = static_cast<std::size_t>(whole.heads / whole.kv_heads);
  const auto heads = static_cast<std::int64_t>(kSquareBytes / (group * square_bytes(whole.sequence)));
  if (heads >= whole.kv_heads) return {std::min(whole.rows, heads / whole.kv_heads), whole.kv_heads};
  return {std::min<std::int64_t>(heads, 1), heads};
}

std::int64_t largest_divisor(std::int64_t of, std::int64_t limit) {
  while (limit > 1 && of % limit != 0) --limit;
  return limit;
}

std::size_t workspace_bytes(const Problem& whole, Part part) {
  const std::int64_t group = whole.heads / whole.kv_heads, heads = part.rows * part.kv_heads * group;
  const std::int64_t vectors = heads * whole_tiles(whole.sequence);
  std::size_t bytes = kSmallWorkspace + static_cast<std::size_t>(heads) * square_bytes(whole.sequence) +
                      static_cast<std::size_t>(vectors) * 2 * sizeof(float);
  // dk and dv of every query head, before those of a group are added.
  if (group > 1) bytes += static_cast<std::size_t>(vectors * whole.width * kElement) * 2;
  return round_up(bytes);
}

std::size_t sums_bytes(const Problem& whole) {
  return round_up(static_cast<std::size_t>(whole.rows * whole.sequence * whole.heads) * sizeof(float));
}

/// log_sum_exp in cuDNN's layout, [rows, H, S]; delta, likewise; the remaining scratch.
struct Pieces {
  float* sums;
  float* delta;
  std::span<std::byte> workspace;
};
Pieces pieces_of(const Problem& whole, Scratch scratch) {
  const std::size_t address = reinterpret_cast<std::uintptr_t>(scratch.data()), step = sums_bytes(whole);
  const Scratch aligned = scratch.subspan(round_up(address) - address);
  return {reinterpret_cast<float*>(aligned.data()), reinterpret_cast<float*>(aligned.subspan(step).data()), aligned.subspan(2 * step)};
}

bool aligned(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::all_of(tensors,
                             [](const Tensor* tensor) { return reinterpret_cast<std::uintptr_t>(tensor->data) % kTensorAlignment == 0; });
}

}  // namespace

bool FusedAttentions::forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                              const Tensor& o, const Tensor& log_sum_exp, Scratch scratch) {
  const Problem whole = problem_of(q.shape, k.shape, options, false);
  const Pieces pieces = pieces_of(whole, scratch);
  if (!aligned({&q, &k, &v, &o})) return false;
  const Plan* plan = plan_of(whole, pieces.workspace.size());
  if (plan == nullptr) return false;
  const Plan::Address addresses[] = {{kQ, q.data}, {kK, k.data}, {kV, v.data}, {kO, o.data}, {kSums, pieces.sums}};
  plan->run(handle_, addresses, pieces.workspace.data());
  transpose_rows(context, pieces.sums, log_sum_exp.as<float>(), whole.rows, whole.heads, whole.sequence);
  return true;
}

bool FusedAttentions::input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options, const Tensor& dq,
                                     const Tensor& dk, const Tensor& dv, Scratch scratch) {
  const Problem whole = problem_of(q.shape, k.shape, options, true);
  const Pieces pieces = pieces_of(whole, scratch);
  const Part most = most_at_once(whole);
  if (most.rows == 0 || !aligned({&d_o, &q, &k, &v, &o, &dq, &dk, &dv})) return false;
  const std::int64_t group = whole.heads / whole.kv_heads;
  Problem part = whole;
  part.rows = largest_divisor(whole.rows, most.rows);
  part.kv_heads = largest_divisor(whole.kv_heads, most.kv_heads);
  part.heads = part.kv_heads * group;
  const Plan* plan = plan_of(part, pieces.workspace.size());
  if (plan == nullptr) return false;
  transpose_rows(context, log_sum_exp.as<float>(), pieces.sums, whole.rows, whole.sequence, whole.heads);
  for (std::int64_t row = 0; row < whole.rows; row += part.rows)
    for (std::int64_t head = 0; head < whole.kv_heads; head += part.kv_heads) {
      const std::int64_t token = row * whole.sequence;
      const std::int64_t query = (token * whole.heads + head * group) * whole.width * kElement;
      const std::int64_t key = (token * whole.kv_heads + head) * whole.width * kElement;
      // With one part per head the parts are whole rows, and with one row they are any heads: in both cases their sums are
      // contiguous.
      const float* sums = pieces.sums + (row * whole.heads + head * group) * whole.sequence;
      const Plan::Address addresses[] = {{kQ, q.data + query},
                                         {kK, k.data + key},
                                         {kV, v.data + key},
                                         {kO, o.data + query},
                                         {kOutputGradient, d_o.data + query},
                                         {kSums, sums},
                                         {kDelta, pieces.delta},
                                         {kQGradient, dq.data + query},
                                         {kKGradient, dk.data + key},
                                         {kVGradient, dv.data + key}};
      plan->run(handle_, addresses, pieces.workspace.data());
    }
  return true;
}

namespace {

/// The plans of the context's device; null if cuDNN is disabled.
FusedAttentions* attentions_of(const ExecutionContext& context) {
  CudaContext::State& state = state_of(context);
  if (!state.cudnn) return nullptr;
  if (!state.attentions) state.attentions = std::make_unique<FusedAttentions>(state.lane(StreamKind::compute));
  return state.attentions.get();
}

}  // namespace

bool fused_attention_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                             const Tensor& o, const Tensor& log_sum_exp, Scratch scratch, const Tensor* sinks) {
  if (sinks != nullptr || !covers(q.shape, k.shape, q.dtype, options)) return false;
  FusedAttentions* const attentions = attentions_of(context);
  return attentions != nullptr && attentions->forward(context, q, k, v, options, o, log_sum_exp, scratch);
}

bool fused_attention_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& o, const Tensor& log_sum_exp, AttentionOptions options, const Tensor& dq,
                                    const Tensor& dk, const Tensor& dv, Scratch scratch) {
  if (!covers(q.shape, k.shape, q.dtype, options)) return false;
  FusedAttentions* const attentions = attentions_of(context);
  return attentions != nullptr && attentions->input_gradient(context, d_o, q, k, v, o, log_sum_exp, options, dq, dk, dv, scratch);
}

std::size_t fused_attention_scratch_bytes(const Shape& q, const Shape& k, DType dtype, AttentionOptions options) {
  if (!covers(q, k, dtype, options)) return 0;
  const Problem whole = problem_of(q, k, options, true);
  return kScratchAlignment + 2 * sums_bytes(whole) + workspace_bytes(whole, most_at_once(whole));
}

}  // namespace millrace::kernels::cuda
#endif
