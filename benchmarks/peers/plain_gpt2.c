// GPT-2 124M trained with plain C loops: what a step costs without a library, as a control for `millrace train`.
//
//     cc -Ofast -march=native -fopenmp plain_gpt2.c -lm -o plain_gpt2
//     OMP_NUM_THREADS=2 ./plain_gpt2 BATCH SEQUENCE [STEPS=5] [WARM=2]     one JSON line: tokens/s of the median step behind WARM others
//     ./plain_gpt2 check                                                   the gradients of a tiny model against differences of the loss
//
// fp32 throughout, random weights and tokens, AdamW. Loops go over batch, time and channels as the formulas do; OpenMP shares out the outermost. The one
// liberty is in the forward product, where 8 rows meet each weight that is loaded. Probabilities of attention are kept for each head and pair of positions.
// N = batch * sequence rows, C channels, H heads, T sequence, V vocabulary. Forward results are written, gradients of parameters added to.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int batch, time, channels, heads, layers, vocabulary, positions;
} Sizes;

// -- layers --------------------------------------------------------------------------------

// out (N, C) = wte[token] + wpe[position]
static void encoder_forward(float* out, const int* tokens, const float* wte, const float* wpe, int N, int T, int C) {
#pragma omp parallel for
  for (int n = 0; n < N; ++n)
    for (int c = 0; c < C; ++c) out[(size_t)n * C + c] = wte[(size_t)tokens[n] * C + c] + wpe[(size_t)(n % T) * C + c];
}

// Rows of the tables may be met twice: by one thread.
static void encoder_backward(float* dwte, float* dwpe, const float* dout, const int* tokens, int N, int T, int C) {
  for (int n = 0; n < N; ++n)
    for (int c = 0; c < C; ++c) {
      const float d = dout[(size_t)n * C + c];
      dwte[(size_t)tokens[n] * C + c] += d;
      dwpe[(size_t)(n % T) * C + c] += d;
    }
}

// out = (x - mean) * scale * weight + bias, with scale = 1 / sqrt(variance + 1e-5); mean and scale (N) are kept
static void layernorm_forward(float* out, float* mean, float* scale, const float* x, const float* weight, const float* bias, int N, int C) {
#pragma omp parallel for
  for (int n = 0; n < N; ++n) {
    const float* row = x + (size_t)n * C;
    float sum = 0, squares = 0;
    for (int c = 0; c < C; ++c) sum += row[c];
    const float m = sum / C;
    for (int c = 0; c < C; ++c) squares += (row[c] - m) * (row[c] - m);
    const float s = 1.0f / sqrtf(squares / C + 1e-5f);
    for (int c = 0; c < C; ++c) out[(size_t)n * C + c] = (row[c] - m) * s * weight[c] + bias[c];
    mean[n] = m;
    scale[n] = s;
  }
}

// With h = (x - mean) * scale and g = dout * weight: dx += scale * (g - mean(g) - h * mean(g h))
static void layernorm_backward(float* dx, float* dweight, float* dbias, const float* dout, const float* x, const float* weight, const float* mean,
                               const float* scale, int N, int C) {
#pragma omp parallel for
  for (int n = 0; n < N; ++n) {
    const float *row = x + (size_t)n * C, *d = dout + (size_t)n * C;
    float mean_g = 0, mean_gh = 0;
    for (int c = 0; c < C; ++c) {
      const float g = d[c] * weight[c];
      mean_g += g;
      mean_gh += g * (row[c] - mean[n]) * scale[n];
    }
    mean_g /= C;
    mean_gh /= C;
    for (int c = 0; c < C; ++c) dx[(size_t)n * C + c] += scale[n] * (d[c] * weight[c] - mean_g - (row[c] - mean[n]) * scale[n] * mean_gh);
  }
  for (int n = 0; n < N; ++n)
    for (int c = 0; c < C; ++c) {
      dweight[c] += dout[(size_t)n * C + c] * (x[(size_t)n * C + c] - mean[n]) * scale[n];
      dbias[c] += dout[(size_t)n * C + c];
    }
}

// out (N, O) = x (N, C) * transpose of weight (O, C) + bias (O), which may be none; N is a multiple of 8
static void matmul_forward(float* out, const float* x, const float* weight, const float* bias, int N, int C, int O) {
#pragma omp parallel for
  for (int block = 0; block < N; block += 8) {
    const float* rows = x + (size_t)block * C;
    for (int o = 0; o < O; ++o) {
      const float* w = weight + (size_t)o * C;
      float sums[8];
      for (int r = 0; r < 8; ++r) sums[r] = bias ? bias[o] : 0.0f;
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < 8; ++r) sums[r] += rows[(size_t)r * C + c] * w[c];
      for (int r = 0; r < 8; ++r) out[(size_t)(block + r) * O + o] = sums[r];
    }
  }
}

// dx (N, C) is written, dweight and dbias added to
static void matmul_backward(float* dx, float* dweight, float* dbias, const float* dout, const float* x, const float* weight, int N, int C, int O) {
#pragma omp parallel for
  for (int n = 0; n < N; ++n) {
    float* row = dx + (size_t)n * C;
    memset(row, 0, sizeof(float) * C);
    for (int o = 0; o < O; ++o) {
      const float d = dout[(size_t)n * O + o];
      const float* w = weight + (size_t)o * C;
      for (int c = 0; c < C; ++c) row[c] += d * w[c];
    }
  }
#pragma omp parallel for
  for (int o = 0; o < O; ++o) {
    float *row = dweight + (size_t)o * C, sum = 0;
    for (int n = 0; n < N; ++n) {
      const float d = dout[(size_t)n * O + o];
      const float* in = x + (size_t)n * C;
      for (int c = 0; c < C; ++c) row[c] += d * in[c];
      sum += d;
    }
    if (dbias) dbias[o] += sum;
  }
}

// out (N, C) = softmax(q k' / sqrt(C/H), causal) v for each head; qkv (N, 3C); att (B, H, T, T) keeps the probabilities up to the diagonal
static void attention_forward(float* out, float* att, const float* qkv, int B, int T, int C, int H) {
  const int D = C / H;
  const float scale = 1.0f / sqrtf((float)D);
#pragma omp parallel for collapse(3)
  for (int b = 0; b < B; ++b)
    for (int t = 0; t < T; ++t)
      for (int h = 0; h < H; ++h) {
        const float *head = qkv + (size_t)b * T * 3 * C + h * D, *q = head + (size_t)t * 3 * C;
        float* p = att + (((size_t)b * H + h) * T + t) * T;
        float largest = -1e30f, sum = 0;
        for (int u = 0; u <= t; ++u) {
          const float* k = head + (size_t)u * 3 * C + C;
          float dot = 0;
          for (int d = 0; d < D; ++d) dot += q[d] * k[d];
          p[u] = dot * scale;
          if (p[u] > largest) largest = p[u];
        }
        for (int u = 0; u <= t; ++u) sum += p[u] = expf(p[u] - largest);
        for (int u = 0; u <= t; ++u) p[u] /= sum;
        float* o = out + ((size_t)b * T + t) * C + h * D;
        memset(o, 0, sizeof(float) * D);
        for (int u = 0; u <= t; ++u) {
          const float* v = head + (size_t)u * 3 * C + 2 * C;
          for (int d = 0; d < D; ++d) o[d] += p[u] * v[d];
        }
      }
}

// dqkv (N, 3C) is written. With r_u = dout . v_u: ds_u = p_u (r_u - sum of p r)
static void attention_backward(float* dqkv, const float* dout, const float* qkv, const float* att, int B, int T, int C, int H) {
  const int D = C / H;
  const float scale = 1.0f / sqrtf((float)D);
  memset(dqkv, 0, sizeof(float) * B * T * 3 * C);
#pragma omp parallel for collapse(2)
  for (int b = 0; b < B; ++b)
    for (int h = 0; h < H; ++h) {
      float* r = malloc(sizeof(float) * T);
      const float* head = qkv + (size_t)b * T * 3 * C + h * D;
      float* dhead = dqkv + (size_t)b * T * 3 * C + h * D;
      for (int t = 0; t < T; ++t) {
        const float *p = att + (((size_t)b * H + h) * T + t) * T, *o = dout + ((size_t)b * T + t) * C + h * D, *q = head + (size_t)t * 3 * C;
        float *dq = dhead + (size_t)t * 3 * C, mean = 0;
        for (int u = 0; u <= t; ++u) {
          const float* v = head + (size_t)u * 3 * C + 2 * C;
          float *dv = dhead + (size_t)u * 3 * C + 2 * C, dot = 0;
          for (int d = 0; d < D; ++d) {
            dot += o[d] * v[d];
            dv[d] += p[u] * o[d];
          }
          r[u] = dot;
          mean += p[u] * dot;
        }
        for (int u = 0; u <= t; ++u) {
          const float *k = head + (size_t)u * 3 * C + C, ds = p[u] * (r[u] - mean) * scale;
          float* dk = dhead + (size_t)u * 3 * C + C;
          for (int d = 0; d < D; ++d) {
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
          }
        }
      }
      free(r);
    }
}

// The tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
#define GELU_SCALE 0.7978845608f
static void gelu_forward(float* out, const float* x, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) out[i] = 0.5f * x[i] * (1.0f + tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

// d (count), the gradient of the result, becomes that of x
static void gelu_backward(float* d, const float* x, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) {
    const float t = tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
    d[i] *= 0.5f * (1.0f + t) + 0.5f * x[i] * (1.0f - t * t) * GELU_SCALE * (1.0f + 3.0f * 0.044715f * x[i] * x[i]);
  }
}

static void residual_forward(float* out, const float* a, const float* b, size_t count) {
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

// logits (N, V) become the gradient of the mean loss, which is returned
static double cross_entropy(float* logits, const int* targets, int N, int V) {
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (int n = 0; n < N; ++n) {
    float *row = logits + (size_t)n * V, largest = -1e30f, sum = 0;
    for (int v = 0; v < V; ++v)
      if (row[v] > largest) largest = row[v];
    const float target = row[targets[n]] - largest;
    for (int v = 0; v < V; ++v) sum += row[v] = expf(row[v] - largest);
    loss += log(sum) - target;
    for (int v = 0; v < V; ++v) row[v] /= sum * N;
    row[targets[n]] -= 1.0f / N;
  }
  return loss / N;
}

static void adamw(float* w, float* dw, float* m, float* v, size_t count, int update) {
  const float rate = 3e-4f, beta1 = 0.9f, beta2 = 0.95f, decay = 0.1f;
  const float correct1 = 1.0f - powf(beta1, update), correct2 = 1.0f - powf(beta2, update);
#pragma omp parallel for
  for (size_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + (1.0f - beta1) * dw[i];
    v[i] = beta2 * v[i] + (1.0f - beta2) * dw[i] * dw[i];
    w[i] -= rate * (m[i] / correct1 / (sqrtf(v[i] / correct2) + 1e-8f) + decay * w[i]);
  }
}

// -- the model -----------------------------------------------------------------------------

// In the order of a block of memory. Those from LN1_W to PROJ2_B come once a layer, each tensor's layers one behind the other.
enum { WTE, WPE, LN1_W, LN1_B, QKV_W, QKV_B, PROJ1_W, PROJ1_B, LN2_W, LN2_B, FC_W, FC_B, PROJ2_W, PROJ2_B, LNF_W, LNF_B, TENSORS };
static const char* const names[] = {"wte",  "wpe",  "ln1.w", "ln1.b", "qkv.w",   "qkv.b",   "attproj.w", "attproj.b",
                                    "ln2.w", "ln2.b", "fc.w",  "fc.b",  "fcproj.w", "fcproj.b", "lnf.w",     "lnf.b"};

typedef struct {
  float* at[TENSORS];
  float* block;
  size_t count;
} Tensors;

// What the forward of a layer saves for its backward.
typedef struct {
  float *ln1, *mean1, *scale1, *qkv, *att, *mixed, *middle, *ln2, *mean2, *scale2, *fc, *gelu, *out;  // mixed: of attention; middle, out: the residual stream
} Layer;

typedef struct {
  Sizes sizes;
  Tensors weights, gradients, moments1, moments2;
  Layer* layers;
  float *encoded, *normed, *mean, *scale, *logits;  // (N, C), (N, C), (N), (N), (N, V)
  float *branch, *stream, *dnorm, *dwide;           // (N, C), (N, C), (N, C), (N, 4C): not kept from layer to layer
  int *tokens, *targets;                            // (N)
} Model;

// Touched, so that no step meets a page for the first time.
static float* numbers(size_t count) {
  float* memory = malloc(count * sizeof(float));
  if (!memory) {
    fprintf(stderr, "plain_gpt2: no %zu bytes of memory\n", count * sizeof(float));
    exit(1);
  }
  memset(memory, 0, count * sizeof(float));
  return memory;
}

static size_t elements(const Sizes* s, int tensor) {
  const size_t C = s->channels, L = s->layers;
  switch (tensor) {
    case WTE: return s->vocabulary * C;
    case WPE: return s->positions * C;
    case QKV_W: return L * 3 * C * C;
    case QKV_B: return L * 3 * C;
    case PROJ1_W: return L * C * C;
    case FC_W: case PROJ2_W: return L * 4 * C * C;
    case FC_B: return L * 4 * C;
    case LNF_W: case LNF_B: return C;
    default: return L * C;
  }
}

static Tensors make_tensors(const Sizes* s) {
  Tensors tensors = {.count = 0};
  for (int i = 0; i < TENSORS; ++i) tensors.count += elements(s, i);
  float* next = tensors.block = numbers(tensors.count);
  for (int i = 0; i < TENSORS; next += elements(s, i++)) tensors.at[i] = next;
  return tensors;
}

static float* of_layer(const Sizes* s, const Tensors* tensors, int tensor, int layer) {
  return tensors->at[tensor] + elements(s, tensor) / s->layers * layer;
}

static uint64_t seed = 1;
static double uniform(void) {  // xorshift64*
  seed ^= seed >> 12, seed ^= seed << 25, seed ^= seed >> 27;
  return (double)((seed * 2685821657736338717ull) >> 11) / 9007199254740992.0;
}

static Model make_model(Sizes s, float deviation) {
  const size_t N = (size_t)s.batch * s.time, C = s.channels;
  Model m = {.sizes = s, .weights = make_tensors(&s), .gradients = make_tensors(&s), .moments1 = make_tensors(&s), .moments2 = make_tensors(&s)};
  for (size_t i = 0; i < m.weights.count; ++i) m.weights.block[i] = deviation * sqrt(-2 * log(1 - uniform())) * cos(6.283185307 * uniform());
  const int gains[] = {LN1_W, LN2_W, LNF_W};
  for (int i = 0; i < 3; ++i)
    for (size_t k = 0; k < elements(&s, gains[i]); ++k) m.weights.at[gains[i]][k] += 1.0f;
  m.layers = malloc(sizeof(Layer) * s.layers);
  for (int l = 0; l < s.layers; ++l)
    m.layers[l] = (Layer){numbers(N * C), numbers(N), numbers(N), numbers(N * 3 * C), numbers(N * s.heads * s.time), numbers(N * C), numbers(N * C),
                          numbers(N * C), numbers(N), numbers(N), numbers(N * 4 * C), numbers(N * 4 * C), numbers(N * C)};
  m.encoded = numbers(N * C), m.normed = numbers(N * C), m.mean = numbers(N), m.scale = numbers(N), m.logits = numbers(N * s.vocabulary);
  m.branch = numbers(N * C), m.stream = numbers(N * C), m.dnorm = numbers(N * C), m.dwide = numbers(N * 4 * C);
  m.tokens = malloc(sizeof(int) * N), m.targets = malloc(sizeof(int) * N);
  for (size_t n = 0; n < N; ++n) m.tokens[n] = (int)(uniform() * s.vocabulary), m.targets[n] = (int)(uniform() * s.vocabulary);
  return m;
}

// The mean loss; the logits hold its gradient afterwards.
static double forward(Model* m) {
  const Sizes s = m->sizes;
  const int N = s.batch * s.time, C = s.channels;
  float* w[TENSORS];
  encoder_forward(m->encoded, m->tokens, m->weights.at[WTE], m->weights.at[WPE], N, s.time, C);
  const float* x = m->encoded;
  for (int l = 0; l < s.layers; ++l) {
    const Layer a = m->layers[l];
    for (int i = LN1_W; i <= PROJ2_B; ++i) w[i] = of_layer(&s, &m->weights, i, l);
    layernorm_forward(a.ln1, a.mean1, a.scale1, x, w[LN1_W], w[LN1_B], N, C);
    matmul_forward(a.qkv, a.ln1, w[QKV_W], w[QKV_B], N, C, 3 * C);
    attention_forward(a.mixed, a.att, a.qkv, s.batch, s.time, C, s.heads);
    matmul_forward(m->branch, a.mixed, w[PROJ1_W], w[PROJ1_B], N, C, C);
    residual_forward(a.middle, x, m->branch, (size_t)N * C);
    layernorm_forward(a.ln2, a.mean2, a.scale2, a.middle, w[LN2_W], w[LN2_B], N, C);
    matmul_forward(a.fc, a.ln2, w[FC_W], w[FC_B], N, C, 4 * C);
    gelu_forward(a.gelu, a.fc, (size_t)N * 4 * C);
    matmul_forward(m->branch, a.gelu, w[PROJ2_W], w[PROJ2_B], N, 4 * C, C);
    residual_forward(a.out, a.middle, m->branch, (size_t)N * C);
    x = a.out;
  }
  layernorm_forward(m->normed, m->mean, m->scale, x, m->weights.at[LNF_W], m->weights.at[LNF_B], N, C);
  matmul_forward(m->logits, m->normed, m->weights.at[WTE], NULL, N, C, s.vocabulary);
  return cross_entropy(m->logits, m->targets, N, s.vocabulary);
}

static void backward(Model* m) {
  const Sizes s = m->sizes;
  const int N = s.batch * s.time, C = s.channels;
  float *w[TENSORS], *d[TENSORS], **all = m->gradients.at;
  float* const stream = m->stream;  // the gradient of the residual stream
  memset(m->gradients.block, 0, sizeof(float) * m->gradients.count);
  memset(stream, 0, sizeof(float) * N * C);
  matmul_backward(m->dnorm, all[WTE], NULL, m->logits, m->normed, m->weights.at[WTE], N, C, s.vocabulary);
  layernorm_backward(stream, all[LNF_W], all[LNF_B], m->dnorm, m->layers[s.layers - 1].out, m->weights.at[LNF_W], m->mean, m->scale, N, C);
  for (int l = s.layers - 1; l >= 0; --l) {
    const Layer a = m->layers[l];
    const float* x = l ? m->layers[l - 1].out : m->encoded;
    for (int i = LN1_W; i <= PROJ2_B; ++i) w[i] = of_layer(&s, &m->weights, i, l), d[i] = of_layer(&s, &m->gradients, i, l);
    matmul_backward(m->dwide, d[PROJ2_W], d[PROJ2_B], stream, a.gelu, w[PROJ2_W], N, 4 * C, C);
    gelu_backward(m->dwide, a.fc, (size_t)N * 4 * C);
    matmul_backward(m->dnorm, d[FC_W], d[FC_B], m->dwide, a.ln2, w[FC_W], N, C, 4 * C);
    layernorm_backward(stream, d[LN2_W], d[LN2_B], m->dnorm, a.middle, w[LN2_W], a.mean2, a.scale2, N, C);
    matmul_backward(m->branch, d[PROJ1_W], d[PROJ1_B], stream, a.mixed, w[PROJ1_W], N, C, C);
    attention_backward(m->dwide, m->branch, a.qkv, a.att, s.batch, s.time, C, s.heads);
    matmul_backward(m->dnorm, d[QKV_W], d[QKV_B], m->dwide, a.ln1, w[QKV_W], N, C, 3 * C);
    layernorm_backward(stream, d[LN1_W], d[LN1_B], m->dnorm, x, w[LN1_W], a.mean1, a.scale1, N, C);
  }
  encoder_backward(all[WTE], all[WPE], stream, m->tokens, N, s.time, C);
}

// -- main ----------------------------------------------------------------------------------

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int ascending(const void* a, const void* b) { return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b); }

// For each tensor, the losses a small step up and down its gradient must differ by the gradient's length times both steps.
static int check(void) {
  Model m = make_model((Sizes){.batch = 2, .time = 12, .channels = 16, .heads = 2, .layers = 2, .vocabulary = 29, .positions = 16}, 0.25f);
  int wrong = 0;
  forward(&m);
  backward(&m);
  for (int i = 0; i < TENSORS; ++i) {
    const size_t count = elements(&m.sizes, i);
    const float *g = m.gradients.at[i], step = 1e-2f;
    float* w = m.weights.at[i];
    double squares = 0, sides[2];
    for (size_t k = 0; k < count; ++k) squares += (double)g[k] * g[k];
    const double length = sqrt(squares);
    float* before = malloc(sizeof(float) * count);
    memcpy(before, w, sizeof(float) * count);
    for (int side = 0; side < 2; ++side) {
      for (size_t k = 0; k < count; ++k) w[k] = before[k] + (side ? -step : step) * (float)(g[k] / length);
      sides[side] = forward(&m);
    }
    memcpy(w, before, sizeof(float) * count);
    free(before);
    const double slope = (sides[0] - sides[1]) / (2 * step), error = fabs(slope - length) / length;
    printf("%-10s gradient %.6f, slope %.6f, %.2f %% apart\n", names[i], length, slope, 100 * error);
    wrong += !(error < 0.01);
  }
  return wrong != 0;
}

int main(int count, char** words) {
  if (count == 2 && !strcmp(words[1], "check")) return check();
  if (count < 3) {
    fprintf(stderr, "plain_gpt2 BATCH SEQUENCE [STEPS=5] [WARM=2] | plain_gpt2 check\n");
    return 2;
  }
  const Sizes s = {atoi(words[1]), atoi(words[2]), .channels = 768, .heads = 12, .layers = 12, .vocabulary = 50257, .positions = 1024};
  const int steps = count > 3 ? atoi(words[3]) : 5, warm = count > 4 ? atoi(words[4]) : 2;
  if (s.batch < 1 || s.time < 1 || s.time > s.positions || s.batch * s.time % 8 || steps < 1 || warm < 0) {
    fprintf(stderr, "plain_gpt2: batch x sequence must be a multiple of 8, the sequence 1024 at most, at least one step\n");
    return 2;
  }
  Model m = make_model(s, 0.02f);
  double* seconds = malloc(sizeof(double) * steps);
  double first = 0, last = 0;
  for (int step = 0; step < warm + steps; ++step) {
    const double begin = now();
    last = forward(&m);
    backward(&m);
    adamw(m.weights.block, m.gradients.block, m.moments1.block, m.moments2.block, m.weights.count, step + 1);
    if (step == 0) first = last;
    if (step >= warm) seconds[step - warm] = now() - begin;
  }
  qsort(seconds, steps, sizeof(double), ascending);
  const double median = (seconds[(steps - 1) / 2] + seconds[steps / 2]) / 2;
  printf("{\"tokens_per_s\": %.2f, \"step_s\": %.4f, \"params_m\": %.2f, \"loss\": [%.4f, %.4f]}\n", s.batch * s.time / median, median,
         m.weights.count / 1e6, first, last);
  return 0;
}
