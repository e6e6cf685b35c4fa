#include "kernels/muon.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "kernels/base/operands.hpp"
#include "kernels/matmul.hpp"
#include "kernels/square_sum.hpp"

namespace millrace::kernels {
namespace {

constexpr const char* component = "kernels.muon";

/// One of the matrices that lie one after another in `all`.
Tensor matrix_of(const Tensor& all, const MatrixForm& form, std::int64_t index) {
  if (!all) return {};
  const auto bytes = static_cast<std::size_t>(form.rows * form.columns) * size_of(all.dtype);
  return {all.data + static_cast<std::size_t>(index) * bytes, all.dtype, {form.rows, form.columns}, all.space};
}

/// The products of the iteration, by shapes: the Gram matrix of the smaller side is multiplied from that side.
class Products {
 public:
  explicit Products(const MatrixForm& form)
      : matrix_{form.rows, form.columns}, wide_(form.rows <= form.columns), side_(std::min(form.rows, form.columns)) {}

  [[nodiscard]] Shape gram() const { return {side_, side_}; }
  [[nodiscard]] std::size_t scratch_bytes(const Processor& processor) const {
    const auto bytes = [&](const Shape& a, const Shape& b, MatmulOptions options) {
      return matmul_scratch_bytes(a, b, DType::f32, DType::f32, options, processor);
    };
    return std::max({bytes(matrix_, matrix_, gram_options()), bytes(gram(), gram(), {}),
                     wide_ ? bytes(gram(), matrix_, {}) : bytes(matrix_, gram(), {})});
  }
  void gram(const ExecutionContext& context, const Tensor& x, const Tensor& result, Scratch scratch) const {
    matmul(context, x, x, result, gram_options(), scratch);
  }
  static void square(const ExecutionContext& context, const Tensor& gram, const Tensor& result, Scratch scratch) {
    matmul(context, gram, gram, result, {}, scratch);
  }
  void multiply(const ExecutionContext& context, const Tensor& polynomial, const Tensor& x, const Tensor& result, Scratch scratch) const {
    wide_ ? matmul(context, polynomial, x, result, {}, scratch) : matmul(context, x, polynomial, result, {}, scratch);
  }

 private:
  [[nodiscard]] MatmulOptions gram_options() const { return {.transpose_a = !wide_, .transpose_b = wide_}; }
  Shape matrix_;
  bool wide_;  // not more rows than columns
  std::int64_t side_;
};

/// Where the parts of the scratch begin.
struct ScratchParts {
  std::size_t next, gram, square, norm, products, bytes;
  ScratchParts(const MatrixForm& form, const Processor& processor) {
    const Products all(form);
    std::size_t end = 0;
    const auto take = [&end](std::size_t size) { return std::exchange(end, end + align_up(size)); };
    next = take(static_cast<std::size_t>(form.rows * form.columns) * sizeof(float));
    const auto side = static_cast<std::size_t>(all.gram().elements()) * sizeof(float);
    gram = take(side);
    square = take(side);
    norm = take(sizeof(double));
    products = take(all.scratch_bytes(processor));
    bytes = end;
  }
};

MuonMomentum momentum_of(const MuonScalars& scalars) {
  const double beta = scalars.beta, rest = 1.0 - beta, t = static_cast<double>(scalars.update);
  const bool corrected = scalars.form == MuonForm::optax;
  return {.beta = static_cast<float>(beta),
          .rest = static_cast<float>(rest),
          .momentum_share = static_cast<float>(corrected ? beta / (1.0 - std::pow(beta, t + 1)) : beta),
          .gradient_share = static_cast<float>(corrected ? rest / (1.0 - std::pow(beta, t)) : rest),
          .gradient_scale = scalars.gradient_scale};
}

MuonStep step_of(const MuonScalars& scalars, const OptimizerTensors& tensors) {
  const auto inputs = static_cast<double>(tensors.matrices.inputs()), outputs = static_cast<double>(tensors.matrices.outputs());
  const double size = scalars.consistent_rms > 0 ? scalars.consistent_rms * std::sqrt(std::max(inputs, outputs))
                                                 : std::sqrt(std::max(1.0, outputs / inputs));
  return {.keep = static_cast<float>(1.0 - scalars.learning_rate * (tensors.decays ? scalars.weight_decay : 0.0)),
          .rate = static_cast<float>(scalars.learning_rate * size)};
}

void check(const OptimizerTensors& tensors) {
  check_optimizer_tensors(component, tensors, {"momentum"}, true);
  const MatrixForm& form = tensors.matrices;
  MILLRACE_CHECK(
      form.count >= 1 && form.rows >= 1 && form.columns >= 1 && form.count * form.rows * form.columns == tensors.parameter.elements(),
      ExitCode::internal, component, "{} matrices [{}, {}] in a parameter {}, expected as many elements", form.count, form.rows,
      form.columns, to_string(tensors.parameter.shape));
}

/// Updates the matrices of one tensor.
void update(const ExecutionContext& context, const MuonScalars& scalars, const OptimizerTensors& tensors, Scratch scratch) {
  const MatrixForm& form = tensors.matrices;
  const Products products(form);
  const ScratchParts parts(form, context.processor());
  check_scratch(component, scratch, parts.bytes);
  const auto part = [&](std::size_t offset, DType dtype, const Shape& shape) { return Tensor{scratch.data() + offset, dtype, shape}; };
  const Tensor gram = part(parts.gram, DType::f32, products.gram()), square = part(parts.square, DType::f32, products.gram());
  const Tensor norm = part(parts.norm, DType::f64, {1});
  const Scratch rest = scratch.subspan(parts.products);
  for (std::int64_t i = 0; i < form.count; ++i) {
    const Tensor gradient = matrix_of(tensors.gradient, form, i);
    table::muon_momentum(context, momentum_of(scalars), gradient, matrix_of(tensors.states[0], form, i));
    square_sum(context, gradient, norm);
    table::muon_normalize(context, MuonNorm{static_cast<float>(scalars.epsilon), scalars.form == MuonForm::optax}, norm, gradient);
    // The number of iterations is odd, so that the result is not in the gradient's place, which is to be zeroed.
    static_assert(newton_schulz_iterations % 2 == 1);
    Tensor x = gradient, next = part(parts.next, DType::f32, gradient.shape);
    for (int iteration = 0; iteration < newton_schulz_iterations; ++iteration) {
      products.gram(context, x, gram, rest);
      Products::square(context, gram, square, rest);
      table::muon_polynomial(context, MuonPolynomial{3.4445F, -4.7750F, 2.0315F}, gram, square);
      products.multiply(context, square, x, next, rest);
      std::swap(x, next);
    }
    table::muon_step(context, step_of(scalars, tensors), x, matrix_of(tensors.parameter, form, i), gradient,
                     matrix_of(tensors.copy, form, i));
  }
}

}  // namespace

void muon(const ExecutionContext& context, const MuonScalars& scalars, std::span<const OptimizerTensors> tensors, Scratch scratch) {
  MILLRACE_CHECK(scalars.update >= 1, ExitCode::internal, component, "update {}, expected 1 or more", scalars.update);
  for (const OptimizerTensors& each : tensors) {
    check(each);
    update(context, scalars, each, scratch);
  }
}

std::size_t muon_scratch_bytes(const MatrixForm& form, const Processor& processor) { return ScratchParts(form, processor).bytes; }

}  // namespace millrace::kernels
