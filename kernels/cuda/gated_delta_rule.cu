#include "kernels/gated_delta_rule.hpp"

#include "kernels/cuda/launch.cuh"

/// Plain form: a block of threads for each row and value head, chunk by chunk as kernels/gated_delta_rule.hpp has it, with matrices in
/// scratch. The gradients of queries and keys are summed over the value heads of a key head by a second kernel.
namespace millrace::kernels::cuda {
namespace {

constexpr int kChunk = static_cast<int>(gated_delta_rule_chunk);
constexpr int kSquare = kChunk * kChunk;

struct Sizes {
  std::int64_t sequence, chunks;
  int key_heads, value_heads, head_k_dim, head_v_dim;
  float scale;
  bool read_segments, reset;
};
/// Floats of a block's scratch: the states before chunks, and U. The forward keeps those of one chunk, and A and P.
__host__ __device__ inline std::int64_t state_floats(const Sizes& sizes) {
  return static_cast<std::int64_t>(sizes.head_k_dim) * sizes.head_v_dim;
}
__host__ __device__ inline std::int64_t forward_floats(const Sizes& sizes) {
  return state_floats(sizes) + kChunk * sizes.head_v_dim + 2 * kSquare;
}
/// The gradient keeps those of all chunks, and dΩ, dU, six square matrices, a tile of keys, dQ and dK of the row.
__host__ __device__ inline std::int64_t backward_floats(const Sizes& sizes) {
  return (sizes.chunks + 1) * (state_floats(sizes) + kChunk * sizes.head_v_dim) + 6 * kSquare + kChunk * sizes.head_k_dim +
         2 * sizes.sequence * sizes.head_k_dim;
}

template <class T>
struct Operands {
  Sizes sizes;
  const T* q;
  const T* k;
  const T* v;
  const float* g;
  const float* beta;
  const std::int32_t* segments;
};

/// A chunk of one value head, in shared memory.
struct Chunk {
  float gamma[kChunk], gamma_rest[kChunk];  // their sum is γ, which restarts with each run of tokens of one state
  float from_start[kChunk];                 // factor of the state that comes in
  float to_end[kChunk];                     // factor of a token's update in the state that goes out
  float beta[kChunk];
  int start[kChunk];  // the first token of the token's run
  int padding[kChunk];
  float through;  // factor of the state that comes in in the one that goes out
};

/// A row and value head of this block, at one chunk.
template <class T>
struct Place {
  const Operands<T>& in;
  Chunk& chunk;
  std::int64_t first = 0;  // token
  int count = 0;
  int head = static_cast<int>(blockIdx.x) % in.sizes.value_heads;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / in.sizes.value_heads;

  __device__ std::int64_t key(int t) const {
    const int key_head = head / (in.sizes.value_heads / in.sizes.key_heads);
    return ((first + t) * in.sizes.key_heads + key_head) * in.sizes.head_k_dim;
  }
  __device__ std::int64_t number(int t) const { return (first + t) * in.sizes.value_heads + head; }
  __device__ std::int64_t value(int t) const { return number(t) * in.sizes.head_v_dim; }
  __device__ float q(int t, int i) const { return load(in.q + key(t) + i) * in.sizes.scale; }
  __device__ float k(int t, int i) const { return chunk.padding[t] ? 0.0F : load(in.k + key(t) + i); }
  __device__ float v(int t, int j) const { return chunk.padding[t] ? 0.0F : load(in.v + value(t) + j); }
  __device__ bool sees(int i, int j) const { return chunk.start[i] <= j && j <= i; }
  __device__ float decay(int i, int j) const {
    return expf((chunk.gamma[i] - chunk.gamma[j]) + (chunk.gamma_rest[i] - chunk.gamma_rest[j]));
  }

  /// Moves to a chunk. Every thread must call it.
  __device__ void move_to(std::int64_t index) {
    const Sizes& sizes = in.sizes;
    const std::int64_t begin = index * kChunk;
    __syncthreads();  // no thread reads the previous chunk any more
    first = row * sizes.sequence + begin;
    count = static_cast<int>(sizes.sequence - begin < kChunk ? sizes.sequence - begin : kChunk);
    if (threadIdx.x == 0) describe(index > 0);
    __syncthreads();
  }

 private:
  __device__ void describe(bool continues) {
    double sum = 0;
    int start = 0;
    for (int t = 0; t < count; ++t) {
      const std::int32_t* segment = in.segments + first + t;
      const bool border = in.sizes.read_segments && in.sizes.reset && (t > 0 || continues) && segment[0] != segment[-1];
      if (border) start = t, sum = 0;
      if (border && t == 0) continues = false;
      chunk.start[t] = start;
      chunk.padding[t] = in.sizes.read_segments && segment[0] == 0 ? 1 : 0;
      chunk.beta[t] = in.beta[number(t)];
      if (chunk.padding[t] == 0) sum += static_cast<double>(in.g[number(t)]);
      chunk.gamma[t] = static_cast<float>(sum);
      chunk.gamma_rest[t] = static_cast<float>(sum - static_cast<double>(chunk.gamma[t]));
      chunk.from_start[t] = continues && start == 0 ? expf(chunk.gamma[t]) : 0.0F;
    }
    for (int t = 0; t < count; ++t) chunk.to_end[t] = t >= start ? decay(count - 1, t) : 0.0F;
    chunk.through = chunk.from_start[count - 1];
  }
};

/// out(i, j, Σ_k a(i, k)·b(k, j)), k in order. A thread computes four rows of a column. Threads must be synchronised between results and
/// their use.
template <class A, class B, class Out>
__device__ __forceinline__ void multiply(int rows, int columns, int depth, A a, B b, Out out) {
  const int items = (rows + 3) / 4 * columns;
  for (int item = static_cast<int>(threadIdx.x); item < items; item += kThreads) {
    const int j = item % columns, first = item / columns * 4;
    float sum[4] = {};
    for (int k = 0; k < depth; ++k) {
      const float right = b(k, j);
#pragma unroll
      for (int r = 0; r < 4; ++r)
        if (first + r < rows) sum[r] += a(first + r, k) * right;
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (first + r < rows) out(first + r, j, sum[r]);
  }
}

/// A = KKᵀ∘Λ below the diagonal, and P = QKᵀ∘Λ if it is not null; 0 elsewhere.
template <class T>
__device__ void weigh(const Place<T>& at, float* a, float* p) {
  for (int item = static_cast<int>(threadIdx.x); item < kSquare; item += kThreads) {
    const int i = item / kChunk, j = item % kChunk;
    float below = 0, weight = 0;
    if (i < at.count && at.sees(i, j)) {
      float kk = 0, qk = 0;
      for (int d = 0; d < at.in.sizes.head_k_dim; ++d) {
        const float key = at.k(j, d);
        kk += at.k(i, d) * key;
        if (p != nullptr) qk += at.q(i, d) * key;
      }
      const float decay = at.decay(i, j);
      if (j < i) below = kk * decay;
      weight = qk * decay;
    }
    a[item] = below;
    if (p != nullptr) p[item] = weight;
  }
  __syncthreads();
}

/// U = (I + L)⁻¹·diag(β)·(V − diag(e^γ)·KΩ).
template <class T>
__device__ void update(const Place<T>& at, const float* a, const float* state, float* u) {
  const int width = at.in.sizes.head_v_dim;
  multiply(
      at.count, width, at.in.sizes.head_k_dim, [&](int t, int i) { return at.k(t, i); }, [&](int i, int j) { return state[i * width + j]; },
      [&](int t, int j, float sum) { u[t * width + j] = at.chunk.beta[t] * (at.v(t, j) - at.chunk.from_start[t] * sum); });
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < width; j += kThreads)
    for (int t = 1; t < at.count; ++t) {
      float sum = 0;
      for (int before = at.chunk.start[t]; before < t; ++before) sum += a[t * kChunk + before] * u[before * width + j];
      u[t * width + j] -= at.chunk.beta[t] * sum;
    }
  __syncthreads();
}

/// The state after the chunk; may be the memory of the one before.
template <class T>
__device__ void advance(const Place<T>& at, const float* u, const float* before, float* after) {
  const int width = at.in.sizes.head_v_dim;
  multiply(
      at.in.sizes.head_k_dim, width, at.count, [&](int i, int t) { return at.k(t, i) * at.chunk.to_end[t]; },
      [&](int t, int j) { return u[t * width + j]; },
      [&](int i, int j, float sum) { after[i * width + j] = at.chunk.through * before[i * width + j] + sum; });
  __syncthreads();
}

__device__ inline void clear(float* to, std::int64_t count) {
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) to[i] = 0;
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_forward(Operands<T> in, T* o, float* scratch) {
  __shared__ Chunk chunk;
  Place<T> at{in, chunk};
  const int width = in.sizes.head_v_dim, keys = in.sizes.head_k_dim;
  float* state = scratch + static_cast<std::int64_t>(blockIdx.x) * forward_floats(in.sizes);
  float* u = state + state_floats(in.sizes);
  float* a = u + kChunk * width;
  float* p = a + kSquare;
  clear(state, state_floats(in.sizes));
  for (std::int64_t index = 0; index < in.sizes.chunks; ++index) {
    at.move_to(index);
    weigh(at, a, p);
    update(at, a, state, u);
    multiply(
        at.count, width, keys + at.count,
        [&](int t, int k) { return k < keys ? at.q(t, k) * chunk.from_start[t] : p[t * kChunk + k - keys]; },
        [&](int k, int j) { return k < keys ? state[k * width + j] : u[(k - keys) * width + j]; },
        [&](int t, int j, float sum) { store(o + at.value(t) + j, sum); });
    __syncthreads();
    advance(at, u, state, state);
  }
}

template <class T>
struct Gradients {
  const T* d_o;
  T* dv;
  float* dg;
  float* dbeta;
};

/// Memory of a block.
struct Workspace {
  float *a, *p, *x, *n;     // square: A, P, the gradients of QKᵀ and, with β, of KKᵀ
  float *d_gamma, *d_beta;  // square: terms of the gradients of γ and β
  float *d_u, *d_state, *held;
  float *dq, *dk;  // of the row
};

/// The gradients of the square matrices, from dO·Uᵀ and dU·Uᵀ.
template <class T>
__device__ void split_weights(const Place<T>& at, const T* d_o, const float* u, const Workspace& work) {
  const int width = at.in.sizes.head_v_dim;
  for (int item = static_cast<int>(threadIdx.x); item < kSquare; item += kThreads) {
    const int i = item / kChunk, j = item % kChunk;
    float x = 0, n = 0, d_gamma = 0, d_beta = 0;
    if (i < at.count && at.sees(i, j)) {
      float d_p = 0, d_l = 0;
      for (int d = 0; d < width; ++d) {
        const float right = u[j * width + d];
        d_p += load(d_o + at.value(i) + d) * right;
        d_l -= work.d_u[i * width + d] * right;
      }
      if (j == i) d_l = 0;
      const float decay = at.decay(i, j);
      x = d_p * decay;
      n = at.chunk.beta[i] * d_l * decay;
      d_beta = d_l * work.a[item];
      // The diagonal has no decay. It would cancel, and leave its rounding behind where decays are strong.
      if (j < i) d_gamma = d_p * work.p[item] + at.chunk.beta[i] * d_beta;
    }
    work.x[item] = x;
    work.n[item] = n;
    work.d_gamma[item] = d_gamma;
    work.d_beta[item] = d_beta;
  }
  __syncthreads();
}

/// dg and dβ: a thread computes the terms of a token, then one thread adds them. The gradient of a decay is the sum of those of γ from its
/// token on in its run, and of `held`, the gradient through the state that goes out, of the tokens before it. `through` is ⟨dΩ, Ω⟩ times
/// the state's decay.
template <class T>
__device__ void write_scalars(const Place<T>& at, const Gradients<T>& to, const Workspace& work, const float* dq, const float* dk,
                              double through) {
  __shared__ double d_gamma[kChunk], held[kChunk];
  const int keys = at.in.sizes.head_k_dim, t = static_cast<int>(threadIdx.x);
  if (t < at.count) {
    double row = 0, column = 0, rate = 0, along_q = 0, along_k = 0, along_v = 0;
    for (int j = 0; j < at.count; ++j) {
      row += work.d_gamma[t * kChunk + j];
      column += work.d_gamma[j * kChunk + t];
      rate += work.d_beta[t * kChunk + j];
    }
    held[t] = 0;
    for (int i = 0; i < keys; ++i) {
      along_q += at.q(t, i) * dq[t * keys + i];
      along_k += at.k(t, i) * dk[t * keys + i];
      held[t] += at.k(t, i) * work.held[t * keys + i];
    }
    for (int j = 0; j < at.in.sizes.head_v_dim; ++j) along_v += at.v(t, j) * work.d_u[t * at.in.sizes.head_v_dim + j];
    d_gamma[t] = row - column + along_q - at.chunk.beta[t] * along_k;
    to.dbeta[at.number(t)] = static_cast<float>(rate + along_v - along_k);
  }
  __syncthreads();
  if (t == 0) {
    d_gamma[at.count - 1] += through;
    double suffix = 0, before = 0;  // of the tokens before
    for (int i = 0; i < at.count; ++i) {
      const double own = held[i];
      held[i] = before;
      before += own;
    }
    for (int i = at.count - 1; i >= 0; --i) {
      suffix += d_gamma[i];
      // Where a run begins anew, no state is left to decay.
      const bool begins = at.chunk.start[i] == i && (i > 0 || at.chunk.from_start[0] == 0);
      to.dg[at.number(i)] = at.chunk.padding[i] || begins ? 0.0F : static_cast<float>(suffix + held[i]);
      if (at.chunk.start[i] == i) suffix = 0;
    }
  }
  __syncthreads();
}

/// One chunk, from its end to its beginning: `state` came in, and work.d_state is the gradient of the one that goes out.
template <class T>
__device__ void backward_chunk(const Place<T>& at, const Gradients<T>& to, const float* state, const float* u, const Workspace& work) {
  const Chunk& chunk = at.chunk;
  const int width = at.in.sizes.head_v_dim, keys = at.in.sizes.head_k_dim, count = at.count;
  const auto d_o = [&](int t, int j) { return load(to.d_o + at.value(t) + j); };
  weigh(at, work.a, work.p);
  multiply(
      count, width, keys + count, [&](int t, int k) { return k < keys ? at.k(t, k) * chunk.to_end[t] : work.p[(k - keys) * kChunk + t]; },
      [&](int k, int j) { return k < keys ? work.d_state[k * width + j] : d_o(k - keys, j); },
      [&](int t, int j, float sum) { work.d_u[t * width + j] = sum; });
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < width; j += kThreads)
    for (int t = count - 2; t >= 0; --t) {
      float sum = 0;
      for (int later = t + 1; later < count; ++later) sum += chunk.beta[later] * work.a[later * kChunk + t] * work.d_u[later * width + j];
      work.d_u[t * width + j] -= sum;
    }
  __syncthreads();
  split_weights(at, to.d_o, u, work);
  float* dq = work.dq + (at.first - at.row * at.in.sizes.sequence) * keys;
  float* dk = work.dk + (at.first - at.row * at.in.sizes.sequence) * keys;
  multiply(
      count, keys, width, d_o, [&](int j, int i) { return state[i * width + j]; },
      [&](int t, int i, float sum) { dq[t * keys + i] = chunk.from_start[t] * sum; });
  multiply(
      count, keys, width, [&](int t, int j) { return work.d_u[t * width + j]; }, [&](int j, int i) { return state[i * width + j]; },
      [&](int t, int i, float sum) { dk[t * keys + i] = chunk.from_start[t] * sum; });
  multiply(
      count, keys, width, [&](int t, int j) { return u[t * width + j]; }, [&](int j, int i) { return work.d_state[i * width + j]; },
      [&](int t, int i, float sum) { work.held[t * keys + i] = chunk.to_end[t] * sum; });
  double part = 0;
  for (int i = static_cast<int>(threadIdx.x); i < keys * width; i += kThreads) part += work.d_state[i] * state[i];
  const double through = block_sum<kThreads>(part) * chunk.through;
  __syncthreads();
  write_scalars(at, to, work, dq, dk, through);
  for (int item = static_cast<int>(threadIdx.x); item < count * width; item += kThreads) {
    const int t = item / width;
    store(to.dv + at.value(t) + item % width, chunk.padding[t] ? 0.0F : chunk.beta[t] * work.d_u[item]);
  }
  multiply(
      count, keys, count, [&](int t, int k) { return work.x[t * kChunk + k]; }, [&](int k, int i) { return at.k(k, i); },
      [&](int t, int i, float sum) { dq[t * keys + i] += sum; });
  multiply(
      count, keys, 2 * count,
      [&](int t, int k) { return k < count ? work.x[k * kChunk + t] : work.n[t * kChunk + k - count] + work.n[(k - count) * kChunk + t]; },
      [&](int k, int i) { return k < count ? at.q(k, i) : at.k(k - count, i); },
      [&](int t, int i, float sum) {
        dk[t * keys + i] = chunk.padding[t] ? 0.0F : sum + work.held[t * keys + i] - chunk.beta[t] * dk[t * keys + i];
      });
  multiply(
      keys, width, 2 * count,
      [&](int i, int t) {
        return t < count ? at.q(t, i) * chunk.from_start[t] : -chunk.beta[t - count] * chunk.from_start[t - count] * at.k(t - count, i);
      },
      [&](int t, int j) { return t < count ? d_o(t, j) : work.d_u[(t - count) * width + j]; },
      [&](int i, int j, float sum) { work.d_state[i * width + j] = chunk.through * work.d_state[i * width + j] + sum; });
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_backward(Operands<T> in, Gradients<T> to, float* scratch) {
  __shared__ Chunk chunk;
  Place<T> at{in, chunk};
  const std::int64_t state = state_floats(in.sizes), tile = static_cast<std::int64_t>(kChunk) * in.sizes.head_v_dim;
  float* states = scratch + static_cast<std::int64_t>(blockIdx.x) * backward_floats(in.sizes);
  float* updates = states + in.sizes.chunks * state;
  Workspace work;
  work.d_state = updates + in.sizes.chunks * tile;
  work.d_u = work.d_state + state;
  work.a = work.d_u + tile;
  work.p = work.a + kSquare;
  work.x = work.p + kSquare;
  work.n = work.x + kSquare;
  work.d_gamma = work.n + kSquare;
  work.d_beta = work.d_gamma + kSquare;
  work.held = work.d_beta + kSquare;
  work.dq = work.held + kChunk * in.sizes.head_k_dim;
  work.dk = work.dq + in.sizes.sequence * in.sizes.head_k_dim;
  clear(states, state);
  for (std::int64_t index = 0; index < in.sizes.chunks; ++index) {
    at.move_to(index);
    weigh(at, work.a, static_cast<float*>(nullptr));
    update(at, work.a, states + index * state, updates + index * tile);
    if (index + 1 < in.sizes.chunks) advance(at, updates + index * tile, states + index * state, states + (index + 1) * state);
  }
  clear(work.d_state, state);
  for (std::int64_t index = in.sizes.chunks - 1; index >= 0; --index) {
    at.move_to(index);
    backward_chunk(at, to, states + index * state, updates + index * tile, work);
  }
}

/// dq and dk of one element: the sum over the value heads of its key head, in order.
template <class T>
struct SumHeads {
  Sizes sizes;
  const float* scratch;
  T* dq;
  T* dk;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t keys = sizes.head_k_dim, token = i / keys / sizes.key_heads, key_head = i / keys % sizes.key_heads;
    const std::int64_t group = sizes.value_heads / sizes.key_heads, row = token / sizes.sequence;
    const std::int64_t row_size = sizes.sequence * keys, in_row = token % sizes.sequence * keys + i % keys;
    float q = 0, k = 0;
    for (std::int64_t member = 0; member < group; ++member) {
      const std::int64_t block = row * sizes.value_heads + key_head * group + member;
      const float* sums = scratch + (block + 1) * backward_floats(sizes) - 2 * row_size;
      q += sums[in_row];
      k += sums[row_size + in_row];
    }
    store(dq + i, q * sizes.scale);
    store(dk + i, k);
  }
};

Sizes sizes_of(const Shape& q, const Shape& v, GatedDeltaRuleOptions options) {
  return {options.sequence,
          (options.sequence + kChunk - 1) / kChunk,
          static_cast<int>(q[1]),
          static_cast<int>(v[1]),
          static_cast<int>(q[2]),
          static_cast<int>(v[2]),
          options.scale,
          !options.one_segment,
          options.reset_at_segments};
}
std::int64_t blocks_of_heads(const Shape& v, GatedDeltaRuleOptions options) { return v[0] / options.sequence * v[1]; }

template <class T>
Operands<T> operands(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g, const Tensor& beta, const Tensor& segments,
                     GatedDeltaRuleOptions options) {
  return {sizes_of(q.shape, v.shape, options), q.as<T>(), k.as<T>(), v.as<T>(), g.as<float>(), beta.as<float>(),
          segments.as<std::int32_t>()};
}

void gated_delta_rule_forward(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                              const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options, const Tensor& o, Scratch scratch) {
  const std::int64_t blocks = blocks_of_heads(v.shape, options);
  if (blocks == 0) return;
  with_type(q.dtype, [&]<class T>(T) {
    launch(context, "kernels.gated_delta_rule_forward", delta_forward<T>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
           operands<T>(q, k, v, g, beta, segments, options), o.as<T>(), reinterpret_cast<float*>(scratch.data()));
  });
}

void gated_delta_rule_input_gradient(const ExecutionContext& context, const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& g, const Tensor& beta, const Tensor& segments, GatedDeltaRuleOptions options,
                                     const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& dg, const Tensor& dbeta,
                                     Scratch scratch) {
  constexpr const char* component = "kernels.gated_delta_rule_input_gradient";
  const std::int64_t blocks = blocks_of_heads(v.shape, options);
  if (blocks == 0) return;
  auto* memory = reinterpret_cast<float*>(scratch.data());
  with_type(q.dtype, [&]<class T>(T) {
    launch(context, component, delta_backward<T>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
           operands<T>(q, k, v, g, beta, segments, options), Gradients<T>{d_o.as<T>(), dv.as<T>(), dg.as<float>(), dbeta.as<float>()},
           memory);
    for_each(context, component, q.elements(), SumHeads<T>{sizes_of(q.shape, v.shape, options), memory, dq.as<T>(), dk.as<T>()});
  });
}

std::size_t gated_delta_rule_forward_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                   const Processor& /*processor*/) {
  return static_cast<std::size_t>(blocks_of_heads(v, options) * forward_floats(sizes_of(q, v, options))) * sizeof(float);
}

std::size_t gated_delta_rule_gradient_scratch_bytes(const Shape& q, const Shape& v, GatedDeltaRuleOptions options,
                                                    const Processor& /*processor*/) {
  return static_cast<std::size_t>(blocks_of_heads(v, options) * backward_floats(sizes_of(q, v, options))) * sizeof(float);
}

const InTable in_table[] = {
    {Backend::cuda, table::gated_delta_rule_forward, gated_delta_rule_forward},
    {Backend::cuda, table::gated_delta_rule_input_gradient, gated_delta_rule_input_gradient},
    {Backend::cuda, table::gated_delta_rule_forward_scratch_bytes, gated_delta_rule_forward_scratch_bytes},
    {Backend::cuda, table::gated_delta_rule_gradient_scratch_bytes, gated_delta_rule_gradient_scratch_bytes},
};

}  // namespace
}  // namespace millrace::kernels::cuda
