#include "kernels/muon.hpp"

#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

using testing::Data;
using testing::fast;
using testing::same_bits;
using testing::stream_of;

/// A parameter of matrices with its momentum, gradient and copy.
struct MuonState {
  MatrixForm form;
  Data p, m, gradient, copy;
  explicit MuonState(const MatrixForm& matrices)
      : form(matrices),
        p(DType::f32, shape(), 1),
        m(DType::f32, shape(), 2, 0.1F),
        gradient(DType::f32, shape(), 4),
        copy(DType::bf16, shape()) {}
  [[nodiscard]] Shape shape() const { return {form.count, form.rows, form.columns}; }
  [[nodiscard]] OptimizerTensors tensors(bool decays = true) const { return {*p, *gradient, *copy, {*m}, decays, form}; }
  void update(const ExecutionContext& context, const MuonScalars& scalars, bool decays = true) const {
    const auto scratch = testing::scratch_of(context, muon_scratch_bytes(form, context.processor()));
    const auto all = tensors(decays);
    muon(context, scalars, {&all, 1}, scratch.bytes());
    testing::wait();
  }
};

/// The update of one matrix in double, as the papers write it.
std::vector<double> orthogonal(std::vector<double> x, std::int64_t rows, std::int64_t columns, double epsilon, bool added) {
  double norm = 0;
  for (const double each : x) norm += each * each;
  norm = std::sqrt(norm);
  for (double& each : x) each /= added ? norm + epsilon : std::max(norm, epsilon);
  const auto at = [](const std::vector<double>& matrix, std::int64_t width, std::int64_t i, std::int64_t j) {
    return matrix[static_cast<std::size_t>(i * width + j)];
  };
  for (int iteration = 0; iteration < 5; ++iteration) {
    std::vector<double> gram(static_cast<std::size_t>(rows * rows)), factor = gram, next = x;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t k = 0; k < columns; ++k)
          gram[static_cast<std::size_t>(i * rows + j)] += at(x, columns, i, k) * at(x, columns, j, k);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < rows; ++j) {
        double square = 0;
        for (std::int64_t k = 0; k < rows; ++k) square += at(gram, rows, i, k) * at(gram, rows, k, j);
        factor[static_cast<std::size_t>(i * rows + j)] = -4.7750 * at(gram, rows, i, j) + 2.0315 * square + (i == j ? 3.4445 : 0.0);
      }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < rows; ++k) sum += at(factor, rows, i, k) * at(x, columns, k, j);
        next[static_cast<std::size_t>(i * columns + j)] = sum;
      }
    x = next;
  }
  return x;
}

// The vector of spec/training.md 11: G = [[1, 2, −1], [0.5, −1, 3]], β 0.95, the first update of optax's form, outputs / inputs = 3/2.
TEST(Muon, FollowsTheWorkedExample) {
  ThreadTeam team(1);
  const double gradient[] = {1, 2, -1, 0.5, -1, 3}, expected[] = {0.745880, 0.996444, 0.120922, 0.441734, 0.107164, 0.916798};
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    MuonState state({.count = 1, .rows = 2, .columns = 3});
    for (int i = 0; i < 6; ++i) {
      state.p.set(i, 0);
      state.m.set(i, 0);
      state.gradient.set(i, gradient[i]);
    }
    state.update(stream_of(team, implementation), {.form = MuonForm::optax, .learning_rate = 1, .epsilon = 1e-8});
    for (int i = 0; i < 6; ++i) {
      EXPECT_NEAR(state.p.get(i), -expected[i], 1e-5) << i;
      EXPECT_NEAR(state.m.get(i), 0.05 * gradient[i], 1e-6) << i;
      EXPECT_EQ(state.gradient.get(i), 0.0);
    }
  }
}

// Every scalar must be used in its place, in both forms, for matrices of either orientation, one and several.
TEST(Muon, IsItsFormula) {
  ThreadTeam team(2);
  for (const MuonForm form : {MuonForm::torch, MuonForm::optax}) {
    for (const MatrixForm& matrices : {MatrixForm{1, 5, 9, false}, MatrixForm{1, 9, 5, false}, MatrixForm{3, 7, 4, true},
                                       MatrixForm{2, 4, 7, true}, MatrixForm{1, 6, 6, false}, MatrixForm{2, 1, 5, true}}) {
      for (const double rms : {0.0, 0.2}) {
        const MuonScalars scalars{.form = form,
                                  .learning_rate = 0.03,
                                  .beta = 0.8,
                                  .epsilon = 0.05,
                                  .consistent_rms = rms,
                                  .weight_decay = 0.4,
                                  .gradient_scale = 0.37F,
                                  .update = 3};
        for (const auto implementation : {Implementation::fast, Implementation::reference}) {
          const MuonState before(matrices);
          const MuonState after(matrices);
          after.update(stream_of(team, implementation), scalars);
          const std::int64_t size = matrices.rows * matrices.columns;
          const bool optax = form == MuonForm::optax;
          const double inputs = static_cast<double>(matrices.rows_are_outputs ? matrices.columns : matrices.rows);
          const double outputs = static_cast<double>(matrices.rows_are_outputs ? matrices.rows : matrices.columns);
          const double scale = rms > 0 ? rms * std::sqrt(std::max(inputs, outputs)) : std::sqrt(std::max(1.0, outputs / inputs));
          for (std::int64_t matrix = 0; matrix < matrices.count; ++matrix) {
            // The iteration with fewer rows than columns; the other orientation is its transpose.
            const bool wide = matrices.rows <= matrices.columns;
            const std::int64_t rows = wide ? matrices.rows : matrices.columns, columns = size / rows;
            std::vector<double> x(static_cast<std::size_t>(size));
            const auto place = [&](std::int64_t i) {
              const std::int64_t row = i / matrices.columns, column = i % matrices.columns;
              return static_cast<std::size_t>(wide ? i : column * columns + row);
            };
            for (std::int64_t i = 0; i < size; ++i) {
              const double g = before.gradient.at(matrix * size + i) * static_cast<double>(0.37F);
              const double m = 0.8 * before.m.at(matrix * size + i) + 0.2 * g;
              x[place(i)] = optax ? 0.8 * m / (1 - std::pow(0.8, 4)) + 0.2 * g / (1 - std::pow(0.8, 3)) : 0.8 * m + 0.2 * g;
              EXPECT_NEAR(after.m.at(matrix * size + i), m, 1e-6);
            }
            x = orthogonal(x, rows, columns, 0.05, optax);
            for (std::int64_t i = 0; i < size; ++i) {
              const std::int64_t at = matrix * size + i;
              const double expected = before.p.at(at) * (1 - 0.03 * 0.4) - 0.03 * scale * x[place(i)];
              // Each iteration multiplies a deviation of singular values by 3.4445 at most; what comes before it is rounded a few times.
              EXPECT_NEAR(after.p.at(at), expected, tests::fp32_roundoff * (2 + 0.03 * scale * 40 * std::pow(3.4445, 5)))
                  << to_string(before.shape()) << " " << at;
            }
          }
        }
      }
    }
  }
}

TEST(Muon, RoundsABf16MomentumAfterItsUse) {
  ThreadTeam team(2);
  const MatrixForm form{.count = 1, .rows = 13, .columns = 21};
  for (const auto implementation : {Implementation::fast, Implementation::reference}) {
    const auto context = stream_of(team, implementation);
    const MuonState wide(form), narrow(form);
    Data momentum(DType::bf16, narrow.shape());
    for (std::int64_t i = 0; i < momentum.elements(); ++i) {
      momentum.set(i, wide.m.get(i));
      const_cast<Data&>(wide.m).set(i, momentum.get(i));
    }
    wide.update(context, {.learning_rate = 0.1});
    const auto scratch = testing::scratch_of(context, muon_scratch_bytes(form, context.processor()));
    const OptimizerTensors all{*narrow.p, *narrow.gradient, {}, {*momentum}, true, form};
    muon(context, {.learning_rate = 0.1}, {&all, 1}, scratch.bytes());
    testing::wait();
    EXPECT_TRUE(same_bits(narrow.p, wide.p));
    for (std::int64_t i = 0; i < momentum.elements(); ++i) EXPECT_EQ(momentum.get(i), testing::stored_as(DType::bf16, wide.m.get(i)));
  }
}

TEST(Muon, SparesWhatDoesNotDecay) {
  ThreadTeam team(1);
  const MuonState with({.count = 1, .rows = 3, .columns = 4}), without({.count = 1, .rows = 3, .columns = 4}),
      none({.count = 1, .rows = 3, .columns = 4});
  with.update(fast(team), {.learning_rate = 0.1, .weight_decay = 0.5});
  without.update(fast(team), {.learning_rate = 0.1, .weight_decay = 0.5}, false);
  none.update(fast(team), {.learning_rate = 0.1});
  EXPECT_TRUE(same_bits(without.p, none.p));
  EXPECT_FALSE(same_bits(with.p, none.p));
}

// Products on the CPU and in the reference may differ in the last bits; what is around them may not.
TEST(Muon, HasTheElementwiseBitsOfTheReferenceOnAnyThreads) {
  MILLRACE_CPU_ONLY();
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    const auto reference = ExecutionContext(team, Implementation::reference);
    for (const std::int64_t side : {1, 3, 17, 131}) {
      const MatrixForm form{.count = 1, .rows = side, .columns = side};
      const MuonState found(form), expected(form);
      Data square(DType::f64, {1});
      square.set(0, 2.5);
      for (const auto& [state, context] : {std::pair{&found, fast(team)}, {&expected, reference}}) {
        const auto matrix = [&](const Data& data) { return Tensor{(*data).data, (*data).dtype, {side, side}}; };
        table::muon_momentum(context, MuonMomentum{0.8F, 0.2F, 0.7F, 0.4F, 0.37F}, matrix(state->gradient), matrix(state->m));
        table::muon_normalize(context, MuonNorm{1e-3F, true}, *square, matrix(state->gradient));
        table::muon_polynomial(context, MuonPolynomial{3.4445F, -4.7750F, 2.0315F}, matrix(state->gradient), matrix(state->m));
        table::muon_step(context, MuonStep{0.98F, 0.3F}, matrix(state->m), matrix(state->p), matrix(state->gradient), matrix(state->copy));
      }
      for (const auto member : {&MuonState::p, &MuonState::m, &MuonState::gradient, &MuonState::copy})
        EXPECT_TRUE(same_bits(found.*member, expected.*member)) << side;
    }
  }
}

// A matrix gets the same bits among others as alone: experts may be spread over tensors and ranks in any way.
TEST(Muon, TreatsEveryMatrixAlone) {
  ThreadTeam team(2);
  const MatrixForm form{.count = 3, .rows = 19, .columns = 33};
  const MuonState all(form);
  const MuonScalars scalars{.learning_rate = 0.1, .update = 2};
  std::vector<MuonState> alone;
  for (std::int64_t matrix = 0; matrix < 3; ++matrix) {
    const MuonState& one = alone.emplace_back(MatrixForm{.count = 1, .rows = 19, .columns = 33});
    for (std::int64_t i = 0; i < 19 * 33; ++i)
      for (const auto member : {&MuonState::p, &MuonState::m, &MuonState::gradient})
        const_cast<Data&>(one.*member).set(i, (all.*member).get(matrix * 19 * 33 + i));
    one.update(fast(team), scalars);
  }
  all.update(fast(team), scalars);
  for (std::int64_t i = 0; i < all.p.elements(); ++i)
    EXPECT_EQ(all.p.get(i), alone[static_cast<std::size_t>(i / (19 * 33))].p.get(i % (19 * 33))) << i;
}

TEST(Muon, AllocatesNothingInASteadyStep) {
  MILLRACE_CPU_ONLY();
  ThreadTeam team(2);
  const MuonState state({.count = 2, .rows = 200, .columns = 96});
  const auto context = fast(team);
  const auto scratch = testing::scratch_of(context, muon_scratch_bytes(state.form, context.processor()));
  const auto all = state.tensors();
  std::int64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) before = testing::large_allocations();
    muon(context, {.learning_rate = 0.1, .update = step + 1}, {&all, 1}, scratch.bytes());
  }
  EXPECT_EQ(testing::large_allocations(), before);
}

TEST(Muon, RefusesWhatDoesNotFit) {
  ThreadTeam team(1);
  const MuonState state({.count = 2, .rows = 8, .columns = 6});
  const auto context = fast(team);
  const std::size_t bytes = muon_scratch_bytes(state.form, context.processor());
  const auto scratch = testing::scratch_of(context, bytes);
  const auto all = state.tensors();
  const int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(testing::thrown([&] { muon(context, {}, {&all, 1}, scratch.bytes().first(bytes - 1)); }), internal);
  EXPECT_EQ(testing::thrown([&] { muon(context, {.update = 0}, {&all, 1}, scratch.bytes()); }), internal);
  auto other = all;
  other.matrices.rows = 7;
  EXPECT_EQ(testing::thrown([&] { muon(context, {}, {&other, 1}, scratch.bytes()); }), internal);
  other = all;
  other.states = {};
  EXPECT_EQ(testing::thrown([&] { muon(context, {}, {&other, 1}, scratch.bytes()); }), internal);
  EXPECT_EQ(testing::thrown([&] { muon(context, {}, {&all, 1}, scratch.bytes()); }), -1);
}

}  // namespace
}  // namespace millrace::kernels
