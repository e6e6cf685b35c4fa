#include "runtime/passes/row_groups.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "runtime/passes/differentiate.hpp"
#include "runtime/program/expert_slices.hpp"
#include "tests/runtime/program/expert_nets.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime::testing {
namespace {

constexpr std::int64_t mixture_experts = 3;

/// A layer of experts between an embedding and a head: two products of rows that are gathered and combined.
ForwardProgram mixture(std::int64_t chosen) {
  ProgramBuilder builder({.rows = 2, .sequence = 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 8}), "embedding");
  builder.enter(0, "");
  const auto sorted = sort_by_expert(builder, experts_of_tokens(builder, chosen, mixture_experts, "experts"), mixture_experts, "sort");
  const auto rows = gather_rows(builder, x, sorted.places, "gather");
  const auto product = [&](ValueId from, const char* name) {
    return grouped_linear(builder, from, builder.parameter(name, {mixture_experts, 8, 8}, {.experts = {0, mixture_experts}}),
                          sorted.offsets, name,
                          builder.parameter(std::string(name) + ".bias", {mixture_experts, 8},
                                            {.dtype = kernels::DType::f32, .experts = {0, mixture_experts}}));
  };
  const auto hidden = glu(builder, kernels::Activation::silu, product(rows, "gate"), product(rows, "up"), "glu");
  const auto y = combine_rows(builder, product(hidden, "down"), sorted.places, "combine", leading_columns(builder, x, chosen, "weights"));
  builder.enter(-1, "");
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, y, builder.parameter("head", {11, 8}), builder.batch("targets"), {}, "loss"));
  return builder.finish();
}

std::set<std::string> grouped_values(const ProgramSet& set) {
  std::set<std::string> names;
  for (const Value& value : set.values)
    if (value.rows_by.valid()) {
      EXPECT_EQ(set.value(value.rows_by).name, "sort.offsets") << value.name;
      names.insert(value.name);
    }
  return names;
}

// With one choice of each token there are as many rows as tokens, and these are not in the order of experts all the same.
TEST(RowGroups, AreThoseOfTheRowsBetweenGatherAndCombine) {
  for (const std::int64_t chosen : {1, 2}) {
    const ProgramSet set = differentiate(mixture(chosen), {});
    EXPECT_EQ(grouped_values(set), (std::set<std::string>{"gather", "gate", "up", "glu", "down", "combine.dx", "down.dx", "glu.dx",
                                                          "glu.dx.up", "gate.dx", "up.dx", "up.dx_sum"}))
        << chosen;
  }
}

TEST(RowGroups, RecomputedRowsHaveThemToo) {
  const auto names = grouped_values(differentiate(mixture(2), RematerializationPolicy::parse("full", {})));
  EXPECT_TRUE(names.contains("gather.recomputed") && names.contains("glu.recomputed"));
  EXPECT_FALSE(names.contains("embedding.recomputed"));
}

TEST(RowGroups, TheTableSeparatesAllExperts) {
  const ProgramSet set = differentiate(mixture(2), {});
  for (const Value& value : set.values) {
    EXPECT_EQ(value.expert_rows, (value.name == "sort.offsets" ? ExpertRows{0, mixture_experts} : ExpertRows{})) << value.name;
    if (value.role != Role::accumulator) continue;
    const bool whole = value.name == "table" || value.name == "head";
    EXPECT_EQ(value.experts, (whole ? ExpertSlice{} : ExpertSlice{0, mixture_experts})) << value.name;
  }
}

TEST(ExpertRows, AreThoseOfEachSourceAndExpert) {
  const std::vector<std::int32_t> table{0, 2, 2, 5, 6};
  const auto ranges = expert_row_ranges({4, 2}, table, 7);
  ASSERT_EQ(ranges.size(), 3U);
  const auto expect = [&](std::size_t i, std::int64_t expert, std::int64_t source, std::int64_t first, std::int64_t rows) {
    EXPECT_EQ(ranges[i].expert, expert);
    EXPECT_EQ(ranges[i].source, source);
    EXPECT_EQ(ranges[i].first, first);
    EXPECT_EQ(ranges[i].rows, rows);
  };
  expect(0, 4, 0, 0, 2);
  expect(1, 4, 1, 2, 3);
  expect(2, 5, 1, 5, 1);
  tests::expect_error([&] { (void)expert_row_ranges({0, 4}, table, 5); }, ExitCode::internal, {"group 3", "rows 5 to 6", "of 5"});
  const std::vector<std::int32_t> falling{0, 2, 1};
  tests::expect_error([&] { (void)expert_row_ranges({0, 2}, falling, 5); }, ExitCode::internal, {"group 1", "rows 2 to 1"});
}

TEST(ExpertNames, AreReadBack) {
  EXPECT_EQ(expert_name("layers.0.gate", 12), "layers.0.gate#expert12");
  const auto named = named_expert("layers.0.gate#expert12");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->tensor, "layers.0.gate");
  EXPECT_EQ(named->expert, 12);
  for (const char* name : {"layers.0.gate", "gate#expert", "gate#expert1x", "gate#expert1.dx"}) EXPECT_FALSE(named_expert(name)) << name;
}

}  // namespace
}  // namespace millrace::runtime::testing
