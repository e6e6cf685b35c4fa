#include "kernels/expert_rows.hpp"

#include <string>
#include <vector>

#include "tests/kernels/fixture.hpp"

namespace millrace::kernels::testing {
namespace {

using tests::around;
using tests::roundings;

/// How tokens choose.
enum class Choice { spread, even_experts, last_expert };

struct Routing {
  std::int64_t tokens, chosen, experts;
  Choice choice = Choice::spread;
};

void PrintTo(const Routing& r, std::ostream* out) {
  *out << r.tokens << " tokens, " << r.chosen << " of " << r.experts << " experts, choice " << static_cast<int>(r.choice);
}

const Routing kRoutings[] = {{1, 1, 1},
                             {1, 3, 3},
                             {5, 2, 3},
                             {37, 4, 5},
                             {131, 3, 65},
                             {70, 1, 300},
                             {37, 4, 6, Choice::even_experts},
                             {90, 3, 7, Choice::last_expert},
                             {0, 2, 4}};

Data experts_of(const Routing& r) {
  Data experts(DType::i32, {r.tokens, r.chosen});
  for (std::int64_t i = 0; i < experts.elements(); ++i) {
    const std::int64_t t = i / r.chosen, mixed = (t * 2654435761 >> 7) + 5 * t + i % r.chosen;
    const std::int64_t expert = r.choice == Choice::spread         ? mixed % r.experts
                                : r.choice == Choice::even_experts ? mixed % r.experts / 2 * 2
                                                                   : r.experts - 1;
    (*experts).as<std::int32_t>()[i] = static_cast<std::int32_t>(expert);
  }
  return experts;
}

struct Sorted {
  Sorted(const ExecutionContext& context, const Routing& r, const Data& experts)
      : places(DType::i32, {r.tokens, r.chosen}, 7), offsets(DType::i32, {r.experts + 1}, 8) {
    sort_by_expert(context, *experts, *places, *offsets);
  }
  Data places, offsets;
};

/// Every row has one choice, rows are in the order of experts, then of choices, and each expert's begin where the offsets say.
void expect_sorted(const Routing& r, const Data& experts, const Sorted& sorted) {
  wait();
  const auto *expert = (*experts).as<std::int32_t>(), *place = (*sorted.places).as<std::int32_t>(),
             *offset = (*sorted.offsets).as<std::int32_t>();
  const std::int64_t choices = experts.elements();
  std::vector<std::int64_t> choice_of(static_cast<std::size_t>(choices), -1), below(static_cast<std::size_t>(r.experts + 1), 0);
  for (std::int64_t i = 0; i < choices; ++i) {
    ASSERT_TRUE(place[i] >= 0 && place[i] < choices) << "choice " << i << " is at " << place[i];
    auto& there = choice_of[static_cast<std::size_t>(place[i])];
    ASSERT_EQ(there, -1) << "two choices are at " << place[i];
    there = i;
    ++below[static_cast<std::size_t>(expert[i]) + 1];
  }
  for (std::size_t row = 1; row < choice_of.size(); ++row) {
    const std::int64_t a = choice_of[row - 1], b = choice_of[row];
    ASSERT_TRUE(expert[a] < expert[b] || (expert[a] == expert[b] && a < b)) << "rows " << row - 1 << " and " << row;
  }
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < below.size(); ++e) {
    sum += below[e];
    ASSERT_EQ(offset[e], sum) << "expert " << e;
  }
}

TEST(ExpertRows, SortsByExpertThenByToken) {
  for (const Routing& r : kRoutings) {
    SCOPED_TRACE(::testing::PrintToString(r));
    const Data experts = experts_of(r);
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      expect_sorted(r, experts, Sorted(fast(team), r, experts));
      expect_sorted(r, experts, Sorted(ExecutionContext(team, Implementation::reference), r, experts));
    }
  }
}

// So many choices that threads share the work, with few experts, and with so many that two or none of three threads can.
TEST(ExpertRows, SortsManyChoices) {
  MILLRACE_CPU_ONLY();
  for (const Routing& r :
       {Routing{16389, 4, 6}, Routing{13108, 5, 3000}, Routing{66001, 1, 5000}, Routing{16389, 4, 6, Choice::last_expert}}) {
    SCOPED_TRACE(::testing::PrintToString(r));
    const Data experts = experts_of(r);
    for (const int threads : {1, 2, 3}) {
      ThreadTeam team(threads);
      expect_sorted(r, experts, Sorted(fast(team), r, experts));
    }
  }
}

struct Rows {
  Rows(const ExecutionContext& context, DType dtype, const Routing& r, std::int64_t width, bool weighted)
      : x(dtype, {r.tokens, width}, 1),
        weights(DType::f32, {r.tokens, r.chosen}, 2),
        rows(dtype, {r.tokens * r.chosen, width}, 3),
        gathered(dtype, {r.tokens * r.chosen, width}, 4),
        combined(dtype, {r.tokens, width}, 5),
        products(DType::f32, {r.tokens, r.chosen}, 6),
        sorted(context, r, experts_of(r)) {
    const Tensor* factors = weighted ? &*weights : nullptr;
    gather_rows(context, *x, *sorted.places, factors, *gathered);
    combine_rows(context, *rows, *sorted.places, factors, *combined);
    row_products(context, *x, *rows, *sorted.places, *products);
    wait();
  }
  Data x, weights, rows, gathered, combined, products;
  Sorted sorted;
};

void expect_rows(const Rows& at, std::int64_t width, bool weighted) {
  const std::int64_t chosen = (*at.weights).shape[1], choices = at.weights.elements();
  const auto place = [&](std::int64_t choice) { return static_cast<std::int64_t>(at.sorted.places.at(choice)); };
  const auto weight = [&](std::int64_t choice) { return weighted ? at.weights.at(choice) : 1.0; };
  std::vector<std::int64_t> choice_of(static_cast<std::size_t>(choices));
  for (std::int64_t i = 0; i < choices; ++i) choice_of[static_cast<std::size_t>(place(i))] = i;
  EXPECT_TRUE(lies_within(at.gathered, [&](std::int64_t i) {
    const std::int64_t choice = choice_of[static_cast<std::size_t>(i / width)];
    const double exact = weight(choice) * at.x.at(choice / chosen * width + i % width);
    return around(exact, weighted ? roundings(1) * std::abs(exact) : 0);
  }));
  EXPECT_TRUE(lies_within(at.combined, [&](std::int64_t i) {
    double sum = 0, size = 0;
    for (std::int64_t choice = i / width * chosen; choice < (i / width + 1) * chosen; ++choice) {
      const double term = weight(choice) * at.rows.at(place(choice) * width + i % width);
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(chosen)) * size);  // a product and chosen − 1 sums
  }));
  EXPECT_TRUE(lies_within(at.products, [&](std::int64_t choice) {
    double sum = 0, size = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const double term = at.x.at(choice / chosen * width + d) * at.rows.at(place(choice) * width + d);
      sum += term;
      size += std::abs(term);
    }
    return around(sum, roundings(static_cast<double>(width)) * size);
  }));
}

TEST(ExpertRows, MatchesReferenceForAnyThreadCount) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool weighted : {false, true})
      for (const Routing& r :
           {Routing{1, 1, 1}, Routing{1, 3, 3}, Routing{9, 2, 5}, Routing{37, 3, 4, Choice::last_expert}, Routing{0, 2, 2}})
        for (const std::int64_t width : {1, 15, 48, 63, 1030}) {
          SCOPED_TRACE(::testing::Message() << ::testing::PrintToString(r) << " width " << width << " " << to_string(dtype) << " "
                                            << weighted);
          ThreadTeam one(1);
          const Rows expected(ExecutionContext(one, Implementation::reference), dtype, r, width, weighted);
          const Rows found(fast(one), dtype, r, width, weighted);
          expect_rows(expected, width, weighted);
          expect_rows(found, width, weighted);
          // One order of sums. A GPU rounds a product and a sum once.
          if (!on_device()) {
            EXPECT_TRUE(same_bits(found.gathered, expected.gathered));
            EXPECT_TRUE(same_bits(found.combined, expected.combined));
          }
          for (const int threads : {2, 3}) {
            ThreadTeam team(threads);
            const Rows many(fast(team), dtype, r, width, weighted);
            EXPECT_TRUE(same_bits(found.gathered, many.gathered));
            EXPECT_TRUE(same_bits(found.combined, many.combined));
            EXPECT_TRUE(same_bits(found.products, many.products));
          }
        }
}

// y = Σ w · (w · x): the functions undo each other's order.
TEST(ExpertRows, CombinesWhatItGathered) {
  ThreadTeam team(2);
  const Routing r{21, 2, 3};
  const Sorted sorted(fast(team), r, experts_of(r));
  Data x(DType::f32, {21, 19}), weights(DType::f32, {21, 2}), rows(DType::f32, {42, 19}), y(DType::f32, {21, 19});
  for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i));
  for (std::int64_t i = 0; i < weights.elements(); ++i) weights.set(i, i % 2 == 0 ? 1 : 2);
  gather_rows(fast(team), *x, *sorted.places, &*weights, *rows);
  combine_rows(fast(team), *rows, *sorted.places, &*weights, *y);
  for (std::int64_t i = 0; i < y.elements(); ++i) ASSERT_EQ(y.get(i), 5.0 * static_cast<double>(i));
}

TEST(ExpertRows, NamesAnExpertOrAPlaceThatDoesNotExist) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  const Data x(DType::f32, {4, 8}, 1);
  Data experts(DType::i32, {4, 2}), places(DType::i32, {4, 2}), offsets(DType::i32, {4}), rows(DType::f32, {8, 8}), y(x), products(x);
  const auto message_of = [](auto&& call) -> std::string {
    try {
      call();
      wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      return error.what();
    }
    return "no error";
  };
  const auto expect_message = [&](auto&& call, const std::string& kernel, const std::string& text) {
    // A device reports it when the work is done, whichever of the kernels found it.
    EXPECT_EQ(message_of(call), "[kernels." + (on_device() ? "expert_rows" : kernel) + "] " + text);
  };
  for (const int wrong : {3, -1}) {
    experts.set(5, wrong);
    expect_message([&] { sort_by_expert(context, *experts, *places, *offsets); }, "sort_by_expert",
                   "expert " + std::to_string(wrong) + " at position 5, expected 0 to 2");
  }
  Data numbers(DType::f32, {4, 2});
  for (const int wrong : {8, -1}) {
    for (std::int64_t i = 0; i < 8; ++i) places.set(i, i == 3 ? wrong : static_cast<double>(i));
    const std::string text = "place " + std::to_string(wrong) + " at position 3, expected 0 to 7";
    expect_message([&] { gather_rows(context, *x, *places, nullptr, *rows); }, "gather_rows", text);
    expect_message([&] { combine_rows(context, *rows, *places, nullptr, *y); }, "combine_rows", text);
    expect_message([&] { row_products(context, *x, *rows, *places, *numbers); }, "row_products", text);
  }
}

TEST(ExpertRows, RefusesOtherShapes) {
  ThreadTeam team(1);
  const ExecutionContext context = fast(team);
  Data x(DType::f32, {4, 8}), half(DType::bf16, {8, 8}), rows(DType::f32, {8, 8}), places(DType::i32, {4, 2}), offsets(DType::i32, {3}),
      weights(DType::f32, {4, 2}), none(DType::i32, {1}), vector(DType::i32, {8}), other(DType::f32, {4, 3});
  for (std::int64_t i = 0; i < 8; ++i) places.set(i, static_cast<double>(i));
  constexpr int internal = static_cast<int>(ExitCode::internal);
  EXPECT_EQ(thrown([&] { sort_by_expert(context, *vector, *vector, *offsets); }), internal);
  EXPECT_EQ(thrown([&] { sort_by_expert(context, *weights, *places, *offsets); }), internal);
  EXPECT_EQ(thrown([&] { sort_by_expert(context, *places, *vector, *offsets); }), internal);
  EXPECT_EQ(thrown([&] { sort_by_expert(context, *places, *places, *none); }), internal);
  EXPECT_EQ(thrown([&] { gather_rows(context, *x, *places, nullptr, *half); }), internal);
  EXPECT_EQ(thrown([&] { gather_rows(context, *x, *places, nullptr, *x); }), internal);
  EXPECT_EQ(thrown([&] { gather_rows(context, *rows, *places, nullptr, *rows); }), internal);
  EXPECT_EQ(thrown([&] { gather_rows(context, *x, *vector, nullptr, *rows); }), internal);
  EXPECT_EQ(thrown([&] { gather_rows(context, *x, *places, &*other, *rows); }), internal);
  EXPECT_EQ(thrown([&] { combine_rows(context, *x, *places, nullptr, *x); }), internal);
  EXPECT_EQ(thrown([&] { combine_rows(context, *half, *places, nullptr, *x); }), internal);
  EXPECT_EQ(thrown([&] { combine_rows(context, *rows, *places, &*other, *x); }), internal);
  EXPECT_EQ(thrown([&] { row_products(context, *x, *half, *places, *weights); }), internal);
  EXPECT_EQ(thrown([&] { row_products(context, *x, *rows, *places, *other); }), internal);
}

}  // namespace
}  // namespace millrace::kernels::testing
