#include "kernels/cpu/route_loops.hpp"

#include "kernels/cpu/logarithm.hpp"
#include "kernels/cpu/simd/lanes.hpp"

namespace millrace::kernels::cpu {
namespace {

static_assert(max_experts % 16 == 0);

/// One number for each expert of a token, or for each chosen one; steps of sixteen may go beyond the last.
struct alignas(64) Numbers {
  float at[max_experts];
};

MILLRACE_INLINE float widened(float x) { return x; }
MILLRACE_INLINE float widened(BFloat16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }

/// Fills the last step behind `count` numbers.
MILLRACE_INLINE void pad(float* x, std::int64_t count, float value) {
  for (std::int64_t i = count; i % 16 != 0; ++i) x[i] = value;
}

template <class Function>
MILLRACE_INLINE void each_step(float* x, std::int64_t count, Function&& function) {
  for (std::int64_t i = 0; i < count; i += 16) store(x + i, function(load(x + i)));
}

MILLRACE_INLINE float sum_of(const float* x, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}
MILLRACE_INLINE float product_of(const float* x, const float* y, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

/// Below −20 the square root of log(1 + eᵘ) is that of eᵘ in fp32; there the quotient of its slope would be 0/0 in the end.
MILLRACE_INLINE f32x16 sqrt_softplus(f32x16 u) {
  const f32x16 e = exponential(u > 20.0F ? f32x16{} + 20.0F : u);
  const f32x16 near = by_registers(
      e, [](Register v) __attribute__((always_inline)) { return logarithm_of_one_plus(v); });
  f32x16 root = u > 20.0F ? u : near;
  for (int lane = 0; lane < 16; ++lane) root[lane] = __builtin_sqrtf(root[lane]);
  return u < -20.0F ? exponential(0.5F * u) : root;
}
MILLRACE_INLINE f32x16 sqrt_softplus_slope(f32x16 u, f32x16 p) { return u < -20.0F ? 0.5F * p : sigmoid(u) / (2.0F * p); }

/// In place; the sum in the order of the numbers.
MILLRACE_INLINE void softmax(float* x, std::int64_t count) {
  pad(x, count, -__builtin_inff());
  f32x16 tops = load(x);
  for (std::int64_t i = 16; i < count; i += 16) tops = maximum(tops, load(x + i));
  const float top = maximum_lane(tops);
  each_step(
      x, count, [top](f32x16 v) __attribute__((always_inline)) { return exponential(v - top); });
  const float sum = sum_of(x, count);
  each_step(
      x, count, [sum](f32x16 v) __attribute__((always_inline)) { return v / sum; });
}

/// Logits to p, in place.
MILLRACE_INLINE void score(RouterScore kind, float* x, std::int64_t count) {
  if (kind == RouterScore::softmax) return softmax(x, count);
  pad(x, count, 0.0F);
  if (kind == RouterScore::sigmoid)
    each_step(
        x, count, [](f32x16 v) __attribute__((always_inline)) { return sigmoid(v); });
  if (kind == RouterScore::sqrt_softplus)
    each_step(
        x, count, [](f32x16 v) __attribute__((always_inline)) { return sqrt_softplus(v); });
}

/// The scores of the chosen to their weights before they are normalised, in place.
MILLRACE_INLINE void transform(RouterWeight weight, float* s, std::int64_t count) {
  if (weight == RouterWeight::softmax) return softmax(s, count);
  pad(s, count, 0.0F);
  if (weight == RouterWeight::sigmoid)
    each_step(
        s, count, [](f32x16 v) __attribute__((always_inline)) { return sigmoid(v); });
}

template <class T>
MILLRACE_INLINE void load_row(const T* x, std::int64_t count, float* row) {
  for (std::int64_t i = 0; i < count; i += 16) store(row + i, load_lanes(x + i, count - i));
}

// -- the choice: by integers in the order of the scores, so that no score equals kGone ----------------------------

constexpr std::int32_t kNan = 0x7fffffff, kGone = -0x7fffffff - 1;

/// The order of the numbers, both zeros equal, a NaN above all.
MILLRACE_INLINE std::int32_t key_of(float x) {
  const auto bits = __builtin_bit_cast(std::int32_t, x + 0.0F);
  const std::int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
  return x == x ? key : kNan;
}

/// Returns the place of the best of keys [begin, end), which is gone then.
MILLRACE_INLINE std::int32_t take_best(std::int32_t* keys, std::int32_t begin, std::int32_t end) {
  std::int32_t best = kGone;
  for (std::int32_t i = begin; i < end; ++i) best = keys[i] > best ? keys[i] : best;
  std::int32_t first = begin;
  while (keys[first] != best) ++first;
  keys[first] = kGone;
  return first;
}

/// The keys of all experts, with the best of each sixteen, so that a search looks at one block alone.
struct Keys {
  alignas(64) std::int32_t at[max_experts];
  std::int32_t best[max_experts / 16];
};
MILLRACE_INLINE void note_best(Keys& keys, std::int32_t block) {
  const std::int32_t* const at = keys.at + block * 16;
  std::int32_t best = at[0];
  for (int i = 1; i < 16; ++i) best = at[i] > best ? at[i] : best;
  keys.best[block] = best;
}
MILLRACE_INLINE std::int32_t take_best(Keys& keys, std::int32_t blocks) {
  std::int32_t best = keys.best[0], block = 0;
  for (std::int32_t i = 1; i < blocks; ++i) {
    block = keys.best[i] > best ? i : block;
    best = keys.best[i] > best ? keys.best[i] : best;
  }
  std::int32_t first = block * 16;
  while (keys.at[first] != best) ++first;
  keys.at[first] = kGone;
  note_best(keys, block);
  return first;
}

/// Removes the experts of the groups that are not kept.
MILLRACE_INLINE void keep_groups(const float* a, std::int32_t* keys, std::int64_t count, const RouteOptions& options) {
  const auto groups = static_cast<std::int32_t>(options.groups), each = static_cast<std::int32_t>(count) / groups;
  std::int32_t group_keys[max_experts];
  for (std::int32_t group = 0; group < groups; ++group) {
    const std::int32_t begin = group * each, end = begin + each;
    float sum = 0;
    for (std::int64_t best = 0; best < options.group_best; ++best) sum += a[take_best(keys, begin, end)];
    for (std::int32_t i = begin; i < end; ++i) keys[i] = kGone;
    group_keys[group] = key_of(sum);
  }
  for (std::int64_t kept = 0; kept < options.kept_groups; ++kept) {
    const std::int32_t group = take_best(group_keys, 0, groups);
    for (std::int32_t i = group * each; i < (group + 1) * each; ++i) keys[i] = key_of(a[i]);
  }
}

template <class T>
MILLRACE_INLINE void forward(const RouteForward<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = at.count, chosen = at.options.experts_per_token;
  Numbers p, a, s;
  Keys keys;
  const auto blocks = static_cast<std::int32_t>((count + 15) / 16);
  for (std::int64_t token = begin; token < end; ++token) {
    load_row(at.logits + token * count, count, p.at);
    score(at.options.score, p.at, count);
    for (std::int64_t i = 0; i < count; ++i) a.at[i] = at.bias == nullptr ? p.at[i] : p.at[i] + at.bias[i];
    for (std::int64_t i = 0; i < count; ++i) keys.at[i] = key_of(a.at[i]);
    if (at.options.groups > 1) keep_groups(a.at, keys.at, count, at.options);
    for (std::int64_t i = count; i % 16 != 0; ++i) keys.at[i] = kGone;
    for (std::int32_t block = 0; block < blocks; ++block) note_best(keys, block);
    const float* const scores = at.options.bias == RouterBias::score ? a.at : p.at;
    for (std::int64_t k = 0; k < chosen; ++k) {
      std::int32_t& expert = at.experts[token * chosen + k];
      if (!at.options.given) expert = take_best(keys, blocks);
      s.at[k] = scores[expert];
    }
    transform(at.options.weight, s.at, chosen);
    const float sum = sum_of(s.at, chosen) + at.options.sum_epsilon, divisor = divides_by(sum, at.options) ? sum : 1.0F;
    for (std::int64_t k = 0; k < chosen; ++k) at.weights[token * chosen + k] = s.at[k] / divisor * at.options.scale;
  }
}

// -- gradients ----------------------------------------------------------------------------------------------------------------------------

/// What a token's gradients have in common.
struct Chosen {
  Numbers all;  // p of all experts, with a softmax over them
  Numbers u;    // of the chosen: logits,
  Numbers p;    // scores without bias,
  Numbers v;    // weights before they are normalised,
  Numbers g;    // and the gradients that arrive at their scores
};

template <class T>
MILLRACE_INLINE void differentiate(const RouteGradient<T>& at, std::int64_t token, Chosen& c) {
  const RouteOptions& options = at.options;
  const std::int64_t chosen = options.experts_per_token;
  const std::int32_t* const experts = at.experts + token * chosen;
  const T* const logits = at.logits + token * at.count;
  for (std::int64_t k = 0; k < chosen; ++k) c.u.at[k] = widened(logits[experts[k]]);
  pad(c.u.at, chosen, 0.0F);
  if (options.score == RouterScore::softmax) {
    load_row(logits, at.count, c.all.at);
    softmax(c.all.at, at.count);
    for (std::int64_t k = 0; k < chosen; ++k) c.p.at[k] = c.all.at[experts[k]];
  } else {
    for (std::int64_t k = 0; k < chosen; ++k) c.p.at[k] = c.u.at[k];
    score(options.score, c.p.at, chosen);
  }
  for (std::int64_t k = 0; k < chosen; ++k) c.v.at[k] = options.bias == RouterBias::score ? c.p.at[k] + at.bias[experts[k]] : c.p.at[k];
  Numbers rest;  // 1 − v of a sigmoid
  if (options.weight == RouterWeight::sigmoid) {
    for (std::int64_t k = 0; k < chosen; ++k) rest.at[k] = -c.v.at[k];
    transform(options.weight, rest.at, chosen);
  }
  transform(options.weight, c.v.at, chosen);

  for (std::int64_t k = 0; k < chosen; ++k) c.g.at[k] = at.d_weights[token * chosen + k] * options.scale;
  if (const float sum = sum_of(c.v.at, chosen) + options.sum_epsilon; divides_by(sum, options)) {
    float along = 0;
    for (std::int64_t k = 0; k < chosen; ++k) along += c.g.at[k] * (c.v.at[k] / sum);
    for (std::int64_t k = 0; k < chosen; ++k) c.g.at[k] = (c.g.at[k] - along) / sum;
  }
  if (options.weight == RouterWeight::softmax) {
    const float along = product_of(c.g.at, c.v.at, chosen);
    for (std::int64_t k = 0; k < chosen; ++k) c.g.at[k] = c.v.at[k] * (c.g.at[k] - along);
  }
  if (options.weight == RouterWeight::sigmoid)
    for (std::int64_t k = 0; k < chosen; ++k) c.g.at[k] *= c.v.at[k] * rest.at[k];
  pad(c.g.at, chosen, 0.0F);
}

/// The gradients of the scores to those of their own logits; a softmax has others too.
MILLRACE_INLINE void through_score(RouterScore kind, Chosen& c, std::int64_t chosen) {
  for (std::int64_t k = 0; k < chosen; k += 16) {
    const f32x16 u = load(c.u.at + k), p = load(c.p.at + k), g = load(c.g.at + k);
    if (kind == RouterScore::sigmoid) store(c.g.at + k, g * (p * sigmoid(-u)));
    if (kind == RouterScore::sqrt_softplus) store(c.g.at + k, g * sqrt_softplus_slope(u, p));
  }
}

template <class T>
MILLRACE_INLINE void input_gradient(const RouteGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = at.count, chosen = at.options.experts_per_token;
  const bool over_all = at.options.score == RouterScore::softmax;
  Chosen c;
  Numbers du;
  for (std::int64_t token = begin; token < end; ++token) {
    const std::int32_t* const experts = at.experts + token * chosen;
    differentiate(at, token, c);
    const float along = over_all ? product_of(c.g.at, c.p.at, chosen) : 0.0F;
    for (std::int64_t i = 0; i < count; i += 16) store(du.at + i, over_all ? -along * load(c.all.at + i) : f32x16{});
    if (!over_all) through_score(at.options.score, c, chosen);
    for (std::int64_t k = 0; k < chosen; ++k) du.at[experts[k]] = over_all ? c.p.at[k] * (c.g.at[k] - along) : c.g.at[k];
    for (std::int64_t i = 0; i < count; i += 16) store_lanes(at.d_logits + token * count + i, load(du.at + i), count - i);
  }
}

template <class T>
MILLRACE_INLINE void bias_gradient(const RouteGradient<T>& at, std::int64_t begin, std::int64_t end) {
  const std::int64_t chosen = at.options.experts_per_token;
  Chosen c;
  for (std::int64_t token = begin; token < end; ++token) {
    differentiate(at, token, c);
    for (std::int64_t k = 0; k < chosen; ++k) at.d_bias[at.experts[token * chosen + k]] += c.g.at[k];
  }
}

}  // namespace

namespace MILLRACE_ISA {

void route_forward_f32(const RouteForward<float>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void route_forward_bf16(const RouteForward<BFloat16>& at, std::int64_t begin, std::int64_t end) { forward(at, begin, end); }
void route_input_gradient_f32(const RouteGradient<float>& at, std::int64_t begin, std::int64_t end) { input_gradient(at, begin, end); }
void route_input_gradient_bf16(const RouteGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { input_gradient(at, begin, end); }
void route_bias_gradient_f32(const RouteGradient<float>& at, std::int64_t begin, std::int64_t end) { bias_gradient(at, begin, end); }
void route_bias_gradient_bf16(const RouteGradient<BFloat16>& at, std::int64_t begin, std::int64_t end) { bias_gradient(at, begin, end); }

}  // namespace MILLRACE_ISA
}  // namespace millrace::kernels::cpu
