#include "kernels/linear_cross_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/gemm_plans.hpp"
#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {
namespace {

/// Maximum bytes of logits in memory at a time, unless one token has more.
constexpr std::int64_t kTileBytes = std::int64_t{128} << 20;  // of fp32 logits …
constexpr std::int64_t kFewestTokens = 1024;                  // … or this many tokens: products of fewer do not occupy a GPU
constexpr std::int64_t kTokenUnit = 128;                      // tiles of many tokens have a multiple of this many
constexpr std::int64_t kRowUnit = 8;  // rows of a tile start at multiples of this, so that they are aligned for wide loads and products
constexpr int kFewThreads = 128, kManyThreads = 1024;
constexpr std::int64_t kManyEntries = 4096;
constexpr int kLossThreads = 256;

constexpr std::int64_t round_up(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

// -- kernels ------------------------------------------------------------------------------------------------------------------------------

/// How a product h · w is turned into a logit.
struct Shaping {
  float scale, soft_cap;

  __device__ float logit(float product) const {
    const float scaled = product * scale;
    return soft_cap > 0 ? soft_cap * tanhf(scaled / soft_cap) : scaled;
  }
  /// Derivative of the logit with respect to the product, from the logit.
  __device__ float slope(float logit) const {
    const float share = soft_cap > 0 ? logit / soft_cap : 0.0F;
    return scale * (1.0F - share * share);
  }
};

template <class T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};

/// Rows of products of one tile, one per token.
struct Rows {
  const float* products;
  std::int64_t stride, vocabulary, first_token;
  const std::int32_t* targets;
  const float* g;  // null: only the losses are computed
  float z_loss;
  Shaping shaping;
  FaultSlot* fault;
  float* log_sum_exp;         // null: only the gradient is computed
  double *losses, *z_losses;  // one per token
};

/// The largest logit so far, and the sum of exp(logit − maximum).
struct Softmax {
  float maximum, sum;

  __device__ void raise(float top) {
    if (!(top > maximum)) return;
    sum *= expf(maximum - top);
    maximum = top;
  }
};

/// One block per row: computes its log-sum-exp and loss and, with `g`, its row of dl, which may overwrite the products. The
/// target's part is kept apart from the sum: coefficient·softmax − 1 is precise, even if the softmax is close to 1, when it is
/// computed from the other columns' sum.
template <int Threads, class T>
__global__ void __launch_bounds__(Threads) cross_entropy_rows(Rows rows, T* gradient) {
  const std::int64_t row = blockIdx.x, token = rows.first_token + row, count = rows.vocabulary, quads = count / 4;
  const float* const products = rows.products + row * rows.stride;
  const Shaping shaping = rows.shaping;
  std::int64_t target = rows.targets[token];
  if (target >= count) {
    if (threadIdx.x == 0) report(rows.fault, FaultSlot::target, static_cast<std::int32_t>(target), token, count);
    target = -1;
  }
  const bool valid = target >= 0;
  const float at_target = valid ? shaping.logit(products[target]) : 0.0F;

  Softmax own{-INFINITY, 0};
  for (std::int64_t quad = threadIdx.x; quad < quads; quad += Threads) {
    const auto four = reinterpret_cast<const Four<float>*>(products)[quad];
    float logits[4];
    for (int i = 0; i < 4; ++i) logits[i] = shaping.logit(four.at[i]);
    own.raise(fmaxf(fmaxf(logits[0], logits[1]), fmaxf(logits[2], logits[3])));
    for (int i = 0; i < 4; ++i)
      if (quad * 4 + i != target) own.sum += expf(logits[i] - own.maximum);
  }
  for (std::int64_t entry = quads * 4 + threadIdx.x; entry < count; entry += Threads) {
    const float logit = shaping.logit(products[entry]);
    own.raise(logit);
    if (entry != target) own.sum += expf(logit - own.maximum);
  }
  const float maximum = block_maximum<Threads>(own.maximum);
  // A thread without entries has a maximum of −∞ and adds nothing.
  const double others = block_sum<Threads>(static_cast<double>(own.sum * expf(own.maximum - maximum)));
  const double target_weight = valid ? static_cast<double>(expf(at_target - maximum)) : 0.0;
  const double sum = others + target_weight;
  const double log_sum_exp = static_cast<double>(maximum) + log(sum);
  if (threadIdx.x == 0 && rows.log_sum_exp != nullptr) {
    const double z = static_cast<double>(rows.z_loss) * log_sum_exp * log_sum_exp;
    rows.log_sum_exp[token] = static_cast<float>(log_sum_exp);
    rows.losses[token] = valid ? log_sum_exp - static_cast<double>(at_target) + z : 0.0;
    rows.z_losses[token] = valid ? z : 0.0;
  }
  if (rows.g == nullptr) return;

  // A masked token's row is zero, whatever its logits are.
  const double g = rows.g[0], more = 2 * static_cast<double>(rows.z_loss) * log_sum_exp;  // the coefficient of the softmax is 1 + more
  const auto by_weight = static_cast<float>(g * (1 + more) / sum);
  const auto target_gradient = static_cast<float>(g * (more * target_weight - others) / sum) * shaping.slope(at_target);
  const auto gradient_of = [&](float product, std::int64_t entry) {
    if (!valid) return 0.0F;
    if (entry == target) return target_gradient;
    const float logit = shaping.logit(product);
    return by_weight * expf(logit - maximum) * shaping.slope(logit);
  };
  T* const out = gradient + row * rows.stride;
  for (std::int64_t quad = threadIdx.x; quad < quads; quad += Threads) {
    const auto four = reinterpret_cast<const Four<float>*>(products)[quad];
    Four<T> result;
    for (int i = 0; i < 4; ++i) store(&result.at[i], gradient_of(four.at[i], quad * 4 + i));
    reinterpret_cast<Four<T>*>(out)[quad] = result;
  }
  for (std::int64_t entry = quads * 4 + threadIdx.x; entry < count; entry += Threads)
    store(out + entry, gradient_of(products[entry], entry));
}

/// One block per row of products: the entry with the largest logit, the first of equal ones.
__global__ void __launch_bounds__(kFewThreads) argmax_rows(Rows rows, std::int32_t* entries) {
  const std::int64_t row = blockIdx.x;
  const float* const products = rows.products + row * rows.stride;
  float largest = -INFINITY;
  std::int64_t place = rows.vocabulary;
  for (std::int64_t entry = threadIdx.x; entry < rows.vocabulary; entry += kFewThreads) {
    const float logit = rows.shaping.logit(products[entry]);
    if (logit > largest || place == rows.vocabulary) largest = logit, place = entry;
  }
  const float maximum = block_maximum<kFewThreads>(largest);
  // The first of the places, in two parts that a float holds exactly; negated, so that the largest is the first.
  constexpr std::int64_t kPart = 1 << 14;
  const bool has = place < rows.vocabulary && largest == maximum;
  const float upper = block_maximum<kFewThreads>(has ? -static_cast<float>(place / kPart) : -INFINITY);
  const bool first = has && -static_cast<float>(place / kPart) == upper;
  const float lower = block_maximum<kFewThreads>(first ? -static_cast<float>(place % kPart) : -INFINITY);
  if (threadIdx.x != 0) return;
  // Without a largest one, since all are NaN, the first entry.
  entries[rows.first_token + row] =
      upper == -INFINITY ? 0 : static_cast<std::int32_t>(-upper) * static_cast<std::int32_t>(kPart) - static_cast<std::int32_t>(lower);
}

/// loss[0] = Σ losses, loss[1] = Σ z_losses, by one block.
__global__ void __launch_bounds__(kLossThreads)
    add_losses(const double* losses, const double* z_losses, std::int64_t tokens, double* loss) {
  double sum = 0, z_sum = 0;
  for (std::int64_t token = threadIdx.x; token < tokens; token += kLossThreads) {
    sum += losses[token];
    z_sum += z_losses[token];
  }
  sum = block_sum<kLossThreads>(sum);
  z_sum = block_sum<kLossThreads>(z_sum);
  if (threadIdx.x != 0) return;
  loss[0] = sum;
  loss[1] = z_sum;
}

struct RoundTable {
  const float* table;
  float* to;
  __device__ void operator()(std::int64_t i) const { to[i] = rounded<__nv_bfloat16>(table[i]); }
};

struct AddRounded {
  const float* part;
  float* sums;
  __device__ void operator()(std::int64_t i) const { sums[i] += rounded<__nv_bfloat16>(part[i]); }
};

struct ShapeLogits {
  const float* products;
  std::int64_t stride, vocabulary;
  Shaping shaping;
  float* logits;
  __device__ void operator()(std::int64_t i) const { logits[i] = shaping.logit(products[i / vocabulary * stride + i % vocabulary]); }
};

// -- calls --------------------------------------------------------------------------------------------------------------------------------

/// Layout of the scratch. One layout serves all calls, including those with fewer tokens.
struct Layout {
  std::int64_t tokens, width, vocabulary, stride, tile_tokens;
  std::size_t products, narrow, losses, z_losses, table, part, bytes;

  Layout(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options)
      : tokens(h[0]), width(h[1]), vocabulary(w[0]), stride(round_up(vocabulary, kRowUnit)), tile_tokens(tokens_of_a_tile()) {
    std::size_t end = 0;
    const auto take = [&end](std::int64_t elements, std::size_t size) {
      const std::size_t offset = end;
      end += static_cast<std::size_t>(round_up(elements * static_cast<std::int64_t>(size), kAlignment));
      return offset;
    };
    products = take(tile_tokens * stride, sizeof(float));
    narrow = take(dtype == DType::bf16 ? tile_tokens * stride : 0, sizeof(BFloat16));
    losses = take(tokens, sizeof(double));
    z_losses = take(tokens, sizeof(double));
    table = take(options.round_table && dtype == DType::f32 ? vocabulary * width : 0, sizeof(float));
    part = take(options.round_table ? vocabulary * width : 0, sizeof(float));
    bytes = end + kAlignment;
  }

  static constexpr std::int64_t kAlignment = 256;

 private:
  [[nodiscard]] std::int64_t tokens_of_a_tile() const {
    const std::int64_t fit = kTileBytes / std::max<std::int64_t>(stride * std::int64_t{sizeof(float)}, 1);
    return std::min(std::max(fit / kTokenUnit * kTokenUnit, kFewestTokens), tokens);
  }
};

/// One call: its arguments, and its pass over the tiles.
class Head {
 public:
  Head(const ExecutionContext& context, const char* component, const Tensor& h, const Tensor& w, CrossEntropyOptions options,
       Scratch scratch)
      : context_(context),
        component_(component),
        layout_(h.shape, w.shape, h.dtype, options),
        options_(options),
        h_(h),
        table_(w.data),
        base_(scratch.data()) {
    const auto misaligned = reinterpret_cast<std::uintptr_t>(base_) % Layout::kAlignment;
    if (misaligned != 0) base_ += Layout::kAlignment - misaligned;
    if (!options.round_table || w.dtype != DType::f32) return;
    cuda::for_each(context, component, w.elements(), RoundTable{w.as<float>(), at<float>(layout_.table)});
    table_ = base_ + layout_.table;
  }

  void write_logits(const Tensor& logits) {
    for_each_tile([&] {
      cuda::for_each(context_, component_, count_ * layout_.vocabulary,
                     ShapeLogits{at<float>(layout_.products), layout_.stride, layout_.vocabulary, shaping(),
                                 logits.as<float>() + first_ * layout_.vocabulary});
    });
  }

  void write_argmax(const Tensor& entries) {
    for_each_tile([&] {
      const Rows rows{.products = at<float>(layout_.products),
                      .stride = layout_.stride,
                      .vocabulary = layout_.vocabulary,
                      .first_token = first_,
                      .shaping = shaping()};
      launch(context_, component_, argmax_rows, dim3(static_cast<unsigned>(count_)), dim3(kFewThreads), 0, rows,
             entries.as<std::int32_t>());
    });
  }

  /// Requested results: the losses of all tokens and, with `g`, the gradients.
  struct Results {
    const Tensor* loss = nullptr;  // together with log_sum_exp
    const Tensor* log_sum_exp = nullptr;
    const Tensor* g = nullptr;
    const Tensor* dh = nullptr;
    const Tensor* dw = nullptr;
  };
  void compute(const Tensor& targets, const Results& results) {
    for_each_tile([&] {
      run_rows(targets, results);
      if (results.dh != nullptr) multiply_by_table(*results.dh);
      if (results.dw != nullptr) multiply_by_tokens(*results.dw);
    });
    if (results.loss != nullptr)
      launch(context_, component_, add_losses, dim3(1), dim3(kLossThreads), 0, at<double>(layout_.losses), at<double>(layout_.z_losses),
             layout_.tokens, results.loss->as<double>());
    if (results.dw != nullptr && options_.round_table && layout_.tokens > 0)
      cuda::for_each(context_, component_, results.dw->elements(), AddRounded{at<float>(layout_.part), results.dw->as<float>()});
  }

 private:
  /// Calls body() for every tile in order, after computing its products h · wᵀ.
  template <class Body>
  void for_each_tile(Body&& body) {
    for (first_ = 0; first_ < layout_.tokens; first_ += layout_.tile_tokens) {
      count_ = std::min(layout_.tile_tokens, layout_.tokens - first_);
      multiply({.m = count_,
                .n = layout_.vocabulary,
                .k = layout_.width,
                .transpose_b = true,
                .operands = h_.dtype,
                .a = tokens_of(h_),
                .b = table_,
                .c = base_ + layout_.products,
                .c_stride = layout_.stride});
      body();
    }
  }

  void run_rows(const Tensor& targets, const Results& results) const {
    const bool losses = results.log_sum_exp != nullptr;
    const Rows rows{.products = at<float>(layout_.products),
                    .stride = layout_.stride,
                    .vocabulary = layout_.vocabulary,
                    .first_token = first_,
                    .targets = targets.as<std::int32_t>(),
                    .g = results.g != nullptr ? results.g->as<float>() : nullptr,
                    .z_loss = options_.z_loss,
                    .shaping = shaping(),
                    .fault = state_of(context_).fault,
                    .log_sum_exp = losses ? results.log_sum_exp->as<float>() : nullptr,
                    .losses = at<double>(layout_.losses),
                    .z_losses = at<double>(layout_.z_losses)};
    const bool many = layout_.vocabulary >= kManyEntries;
    const dim3 grid(static_cast<unsigned>(count_)), block(many ? kManyThreads : kFewThreads);
    with_type(h_.dtype, [&](auto element) {
      using T = decltype(element);
      launch(context_, component_, many ? cross_entropy_rows<kManyThreads, T> : cross_entropy_rows<kFewThreads, T>, grid, block, 0, rows,
             reinterpret_cast<T*>(gradient()));
    });
  }
  /// The tile's tokens of dh = dl · w.
  void multiply_by_table(const Tensor& dh) const {
    multiply({.m = count_,
              .n = layout_.width,
              .k = layout_.vocabulary,
              .operands = h_.dtype,
              .result = dh.dtype,
              .a = gradient(),
              .b = table_,
              .c = tokens_of(dh),
              .a_stride = layout_.stride});
  }
  /// dw += dlᵀ · h; if rounding is requested, the sum over all tokens is rounded.
  void multiply_by_tokens(const Tensor& dw) const {
    multiply({.m = layout_.vocabulary,
              .n = layout_.width,
              .k = count_,
              .transpose_a = true,
              .accumulate = !options_.round_table || first_ > 0,
              .operands = h_.dtype,
              .a = gradient(),
              .b = tokens_of(h_),
              .c = options_.round_table ? base_ + layout_.part : dw.data,
              .a_stride = layout_.stride});
  }
  void multiply(const Product& product) const { state_of(context_).products->multiply(context_, component_, product); }

  /// dl in the dtype of the operands: it overwrites the products, or is stored beside them in bf16.
  [[nodiscard]] std::byte* gradient() const { return base_ + (h_.dtype == DType::bf16 ? layout_.narrow : layout_.products); }
  [[nodiscard]] std::byte* tokens_of(const Tensor& x) const {
    return x.data + static_cast<std::size_t>(first_ * layout_.width) * size_of(x.dtype);
  }
  [[nodiscard]] Shaping shaping() const { return {options_.scale, options_.soft_cap}; }
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  const ExecutionContext& context_;
  const char* component_;
  Layout layout_;
  CrossEntropyOptions options_;
  Tensor h_;
  const std::byte* table_;  // w, rounded if requested
  std::byte* base_;
  std::int64_t first_ = 0, count_ = 0;  // the tile's tokens
};

void linear_cross_entropy_forward(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                  CrossEntropyOptions options, const Tensor& loss, const Tensor& log_sum_exp, Scratch scratch) {
  Head(context, "kernels.linear_cross_entropy_forward", h, w, options, scratch)
      .compute(targets, {.loss = &loss, .log_sum_exp = &log_sum_exp});
}

void linear_cross_entropy_input_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                         const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                         const Tensor& log_sum_exp, Scratch scratch) {
  Head(context, "kernels.linear_cross_entropy_input_gradient", h, w, options, scratch)
      .compute(targets, {.loss = &loss, .log_sum_exp = &log_sum_exp, .g = &g, .dh = &dh});
}

void linear_cross_entropy_weight_gradient(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                          const Tensor& /*log_sum_exp*/, const Tensor& g, CrossEntropyOptions options, const Tensor& dw,
                                          Scratch scratch) {
  // The logits are computed again here, so the sum comes from them, which is more precise than log_sum_exp.
  Head(context, "kernels.linear_cross_entropy_weight_gradient", h, w, options, scratch).compute(targets, {.g = &g, .dw = &dw});
}

void linear_cross_entropy_gradients(const ExecutionContext& context, const Tensor& h, const Tensor& w, const Tensor& targets,
                                    const Tensor& g, CrossEntropyOptions options, const Tensor& dh, const Tensor& loss,
                                    const Tensor& log_sum_exp, const Tensor& dw, Scratch scratch) {
  Head(context, "kernels.linear_cross_entropy_gradients", h, w, options, scratch)
      .compute(targets, {.loss = &loss, .log_sum_exp = &log_sum_exp, .g = &g, .dh = &dh, .dw = &dw});
}

void linear_logits(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& logits,
                   Scratch scratch) {
  Head(context, "kernels.linear_logits", h, w, options, scratch).write_logits(logits);
}

void linear_argmax(const ExecutionContext& context, const Tensor& h, const Tensor& w, CrossEntropyOptions options, const Tensor& entries,
                   Scratch scratch) {
  Head(context, "kernels.linear_argmax", h, w, options, scratch).write_argmax(entries);
}

/// All tiles have whole rows, so that both gradients come from one computation of the logits.
int linear_cross_entropy_gradients_products(const Shape& /*h*/, const Shape& /*w*/, DType /*dtype*/, CrossEntropyOptions /*options*/,
                                            const Processor& /*processor*/) {
  return 3;
}

std::size_t linear_cross_entropy_scratch_bytes(const Shape& h, const Shape& w, DType dtype, CrossEntropyOptions options,
                                               const Processor& /*processor*/) {
  return Layout(h, w, dtype, options).bytes;
}

const InTable in_table[] = {
    {Backend::cuda, table::linear_cross_entropy_forward, linear_cross_entropy_forward},
    {Backend::cuda, table::linear_cross_entropy_input_gradient, linear_cross_entropy_input_gradient},
    {Backend::cuda, table::linear_cross_entropy_weight_gradient, linear_cross_entropy_weight_gradient},
    {Backend::cuda, table::linear_cross_entropy_gradients, linear_cross_entropy_gradients},
    {Backend::cuda, table::linear_cross_entropy_gradients_products, linear_cross_entropy_gradients_products},
    {Backend::cuda, table::linear_logits, linear_logits},
    {Backend::cuda, table::linear_argmax, linear_argmax},
    {Backend::cuda, table::linear_cross_entropy_scratch_bytes, linear_cross_entropy_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
