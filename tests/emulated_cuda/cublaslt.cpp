#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <vector>

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasLtPointerMode_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // -1: the type of d
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type = CUDA_R_32F;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, batch_offset = 0;
  std::int32_t batches = 1;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint32_t search_mode = 0, reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
  std::uint64_t workspace = 0;
};

namespace {

constexpr std::uint64_t kAlgorithm =
    0x6d616e79;  // data[0] of an algorithm that GetHeuristic returns; data[1] is its number, data[2] its alignments

template <class T>
cublasStatus_t take(T& into, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&into, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// A matrix with any strides, of either type.
struct Matrix {
  std::byte* data = nullptr;
  bool bf16 = false;
  std::int64_t row_step = 1, column_step = 1;  // in elements
  [[nodiscard]] float get(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * row_step + column * column_step;
    if (!bf16) return reinterpret_cast<const float*>(data)[at];
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(data)[at]);
  }
  void set(std::int64_t row, std::int64_t column, float value) const {
    const std::int64_t at = row * row_step + column * column_step;
    if (bf16)
      reinterpret_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
    else
      reinterpret_cast<float*>(data)[at] = value;
  }
};

Matrix matrix_of(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, cublasOperation_t operation, std::int64_t batch) {
  Matrix matrix{static_cast<std::byte*>(const_cast<void*>(data)), layout.type == CUDA_R_16BF};
  matrix.data += batch * layout.batch_offset * (matrix.bf16 ? 2 : 4);
  (layout.order == CUBLASLT_ORDER_COL ? matrix.column_step : matrix.row_step) = layout.leading;
  if (operation != CUBLAS_OP_N) std::swap(matrix.row_step, matrix.column_step);
  return matrix;
}

// -- the product: blocks of both operands as fp32, packed so that the inner loop reads contiguously
// ----------------------------------------

constexpr std::int64_t kRows = 16, kColumns = 4;  // of one tile of sums
constexpr std::int64_t kBlockRows = 128, kBlockDepth = 256, kBlockColumns = 256;

typedef float Eight __attribute__((vector_size(32), aligned(4)));

/// sums[column][row] += Σ over depth of left[d][row] · right[d][column].
template <class Vector>
inline __attribute__((always_inline)) void add_tile(std::int64_t depth, const float* left, const float* right, float* sums) {
  constexpr int parts = kRows / 8;
  Vector total[kColumns][parts];
  for (int column = 0; column < kColumns; ++column)
    for (int part = 0; part < parts; ++part) std::memcpy(&total[column][part], sums + column * kRows + part * 8, sizeof(Vector));
  for (std::int64_t d = 0; d < depth; ++d) {
    Vector rows[parts];
    for (int part = 0; part < parts; ++part) std::memcpy(&rows[part], left + d * kRows + part * 8, sizeof(Vector));
    for (int column = 0; column < kColumns; ++column)
      for (int part = 0; part < parts; ++part) total[column][part] += rows[part] * right[d * kColumns + column];
  }
  for (int column = 0; column < kColumns; ++column)
    for (int part = 0; part < parts; ++part) std::memcpy(sums + column * kRows + part * 8, &total[column][part], sizeof(Vector));
}

void add_tile_anywhere(std::int64_t depth, const float* left, const float* right, float* sums) {
  add_tile<Eight>(depth, left, right, sums);
}
#ifdef __x86_64__
__attribute__((target("avx2"))) void add_tile_avx2(std::int64_t depth, const float* left, const float* right, float* sums) {
  constexpr int parts = kRows / 8;
  Eight total[kColumns][parts];
  std::memcpy(total, sums, sizeof total);
  for (std::int64_t d = 0; d < depth; ++d) {
    Eight first, second;
    std::memcpy(&first, left + d * kRows, sizeof first);
    std::memcpy(&second, left + d * kRows + 8, sizeof second);
#pragma GCC unroll 4
    for (int column = 0; column < kColumns; ++column) {
      const float factor = right[d * kColumns + column];
      total[column][0] += first * factor;
      total[column][1] += second * factor;
    }
  }
  std::memcpy(sums, total, sizeof total);
}
const auto add_one_tile = __builtin_cpu_supports("avx2") != 0 ? &add_tile_avx2 : &add_tile_anywhere;
#else
const auto add_one_tile = &add_tile_anywhere;
#endif

/// Packs element(part·each + i, d) to packed[part][d][i], with zeros past the end; `along` and `across` are the strides of the two
/// indices.
void pack(const Matrix& matrix, std::int64_t first, std::int64_t count, std::int64_t first_depth, std::int64_t depth, bool rows,
          std::int64_t each, float* packed) {
  for (std::int64_t begin = 0; begin < count; begin += each, packed += each * depth) {
    const std::int64_t here = std::min(each, count - begin);
    for (std::int64_t d = 0; d < depth; ++d)
      for (std::int64_t i = 0; i < each; ++i)
        packed[d * each + i] = i >= here ? 0.0F
                               : rows    ? matrix.get(first + begin + i, first_depth + d)
                                         : matrix.get(first_depth + d, first + begin + i);
  }
}

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c, d;
  float alpha = 1, beta = 0;
  Matrix bias;
  bool relu = false;

  void finish(std::int64_t row, std::int64_t column, float sum) const {
    float value = alpha * sum;
    if (beta != 0) value += beta * c.get(row, column);
    if (bias.data != nullptr) value += bias.get(row, 0);
    d.set(row, column, relu ? std::max(value, 0.0F) : value);
  }

  void run() const {
    static thread_local std::vector<float> left, right, sums;
    left.resize(kBlockRows * kBlockDepth);
    right.resize(kBlockDepth * kBlockColumns);
    sums.resize(kBlockRows * kBlockColumns);
    for (std::int64_t column = 0; column < n; column += kBlockColumns)
      for (std::int64_t row = 0; row < m; row += kBlockRows) {
        const std::int64_t columns = std::min(kBlockColumns, n - column), rows = std::min(kBlockRows, m - row);
        std::fill(sums.begin(), sums.end(), 0.0F);
        for (std::int64_t depth = 0; depth < k; depth += kBlockDepth) {
          const std::int64_t deep = std::min(kBlockDepth, k - depth);
          pack(a, row, rows, depth, deep, true, kRows, left.data());
          pack(b, column, columns, depth, deep, false, kColumns, right.data());
          for (std::int64_t j = 0; j < columns; j += kColumns)
            for (std::int64_t i = 0; i < rows; i += kRows)
              add_one_tile(deep, left.data() + i * deep, right.data() + j * deep, sums.data() + j * kBlockRows + i * kColumns);
        }
        // The sums of a tile are contiguous: 16 rows of 4 columns; tiles are stored column of tiles by column of tiles.
        for (std::int64_t j = 0; j < columns; ++j)
          for (std::int64_t i = 0; i < rows; ++i)
            finish(row + i, column + j,
                   sums[static_cast<std::size_t>((j / kColumns * kColumns) * kBlockRows + i / kRows * kRows * kColumns +
                                                 j % kColumns * kRows + i % kRows)]);
      }
  }
};

bool fits(const cublasLtMatmulDescOpaque_t& description, const cublasLtMatrixLayoutOpaque_t& a, const cublasLtMatrixLayoutOpaque_t& b,
          const cublasLtMatrixLayoutOpaque_t& c, const cublasLtMatrixLayoutOpaque_t& d) {
  const auto rows = [](const auto& layout, cublasOperation_t operation) { return operation == CUBLAS_OP_N ? layout.rows : layout.columns; };
  const auto columns = [](const auto& layout, cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? layout.columns : layout.rows;
  };
  return rows(a, description.transpose_a) == d.rows && columns(b, description.transpose_b) == d.columns &&
         columns(a, description.transpose_a) == rows(b, description.transpose_b) && c.rows == d.rows && c.columns == d.columns &&
         a.type == b.type && c.type == d.type && (d.type == CUDA_R_32F || d.type == a.type) && a.batches == d.batches &&
         b.batches == d.batches && c.batches == d.batches;
}

/// As on hardware, there is no algorithm for bf16 matrices whose rows do not begin at multiples of four bytes.
bool supported(const cublasLtMatmulDescOpaque_t& description, const cublasLtMatrixLayoutOpaque_t& a, const cublasLtMatrixLayoutOpaque_t& b,
               const cublasLtMatrixLayoutOpaque_t& c, const cublasLtMatrixLayoutOpaque_t& d) {
  for (const auto* const layout : {&a, &b, &c, &d})
    if (layout->type == CUDA_R_16BF && layout->leading % 2 != 0) return false;
  const std::uint64_t k = description.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
  return a.type != CUDA_R_16BF || k % 2 == 0;
}

}  // namespace

std::size_t cublasLtGetVersion() { return 120000; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *description = new cublasLtMatmulDescOpaque_t;
  (*description)->compute = compute;
  (*description)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return take(description->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return take(description->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return take(description->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(description->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(description->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return take(description->transpose_c, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(description->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(description->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(description->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  *layout = new cublasLtMatrixLayoutOpaque_t;
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->columns = columns;
  (*layout)->leading = leading;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return take(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return take(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return take(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return take(layout->columns, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return take(layout->leading, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(layout->batch_offset, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return take(preference->search_mode, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  if (wanted <= 0 || !fits(*description, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, *a, *b, *c, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::uint64_t alignments = 0;  // one byte per matrix: the exponent of its alignment
  for (int i = 3; i >= 0; --i) alignments = alignments << 8 | static_cast<std::uint64_t>(__builtin_ctz(preference->alignment[i] | 256U));
  for (; *count < std::min(wanted, 2); ++*count) {
    results[*count] = {};
    results[*count].algo = {{kAlgorithm, static_cast<std::uint64_t>(*count), alignments}};
    results[*count].state = CUBLAS_STATUS_SUCCESS;
    results[*count].wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes, std::size_t* written) {
  if (algorithm->data[0] != kAlgorithm) return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = sizeof(std::uint32_t);
  if (bytes < sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint32_t found = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID) found = static_cast<std::uint32_t>(algorithm->data[1]);
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) found = 1;
  std::memcpy(value, &found, sizeof found);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  if (algorithm->data[0] != kAlgorithm || !fits(*description, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, *a, *b, *c, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->algo = *algorithm;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t, cudaStream_t stream) {
  if (handle == nullptr || description->pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
      !fits(*description, *a_layout, *b_layout, *c_layout, *d_layout))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*description, *a_layout, *b_layout, *c_layout, *d_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const float alpha_value = *static_cast<const float*>(alpha), beta_value = *static_cast<const float*>(beta);
  if (algorithm != nullptr) {  // the product must meet the conditions for which the algorithm was chosen
    if (algorithm->data[0] != kAlgorithm) return CUBLAS_STATUS_INVALID_VALUE;
    const void* const operands[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i)
      if (reinterpret_cast<std::uintptr_t>(operands[i]) % (std::uint64_t{1} << (algorithm->data[2] >> (8 * i) & 0xff)) != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::vector<Product> products;
  for (std::int64_t batch = 0; batch < d_layout->batches; ++batch) {
    Product product;
    product.m = static_cast<std::int64_t>(d_layout->rows);
    product.n = static_cast<std::int64_t>(d_layout->columns);
    product.k = static_cast<std::int64_t>(description->transpose_a == CUBLAS_OP_N ? a_layout->columns : a_layout->rows);
    product.a = matrix_of(a, *a_layout, description->transpose_a, batch);
    product.b = matrix_of(b, *b_layout, description->transpose_b, batch);
    product.c = matrix_of(c, *c_layout, CUBLAS_OP_N, batch);
    product.d = matrix_of(d, *d_layout, CUBLAS_OP_N, batch);
    product.alpha = alpha_value;
    product.beta = beta_value;
    product.relu = (description->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    if ((description->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
      if (description->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      const auto type = description->bias_type < 0 ? d_layout->type : static_cast<cudaDataType_t>(description->bias_type);
      product.bias = {static_cast<std::byte*>(const_cast<void*>(description->bias)), type == CUDA_R_16BF};
    }
    products.push_back(product);
  }
  const cudaError_t status = emulated_cuda::queue(stream, [products = std::move(products)] {
    for (const Product& product : products) product.run();
  });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
