#include "runtime/engine/shard_layout.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/base/buffer.hpp"
#include "kernels/packing.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/passes/differentiate.hpp"
#include "runtime/program/operations.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

constexpr std::array<StageId, 2> two_stages{StageId{0}, StageId{1}};

RankShards lay_out(const std::vector<StageParameter>& parameters, kernels::DType compute) {
  return lay_out_shards(two_stages, parameters, compute);
}

/// A tied table of both stages, and a weight of each.
std::vector<StageParameter> tied() {
  return {{"norm", {10}, StageId{1}, 0, 2, false, false, true, {}, true},
          {"bias", {4}, StageId{0}, 0, 1, false},
          {"table", {16, 8}, StageId{0}, 0, 0, true},
          {"table", {16, 8}, StageId{1}, 1, 0, true}};
}

Value value(const char* name, kernels::DType dtype, WeightForm form, int use = 0) {
  Value made;
  made.type.dtype = dtype;
  made.name = name;
  made.form = form;
  made.use = use;
  return made;
}

void expect_place(const Place& found, Region region, std::size_t offset) {
  EXPECT_EQ(found.region, region);
  EXPECT_EQ(found.offset, offset);
}

TEST(ShardLayout, HasATiedTableInTheShardOfItsFirstUse) {
  const auto rank = lay_out(tied(), kernels::DType::bf16);
  ASSERT_EQ(rank.stages.size(), 2U);
  const auto &first = rank.stages[0], &last = rank.stages[1];
  ASSERT_EQ(first.tensors.size(), 2U);
  EXPECT_EQ(first.tensors[0].name, "table") << "model order, not the order of declaration";
  EXPECT_EQ(first.tensors[0].home(), StageId{0});
  EXPECT_TRUE(first.borrowed.empty());
  ASSERT_EQ(last.tensors.size(), 1U);
  EXPECT_EQ(last.find("table"), nullptr);
  ASSERT_EQ(last.borrowed.size(), 1U);
  EXPECT_EQ(last.borrowed[0].offset, first.tensors[0].offset);
  EXPECT_TRUE(first.tensors[0].copied);
  EXPECT_FALSE(last.at("norm").copied);
}

// One region for masters and one for copies, shard after shard; every use has its gradient sum in the shard of its own stage.
TEST(ShardLayout, ShardsFollowEachOther) {
  const auto rank = lay_out(tied(), kernels::DType::bf16);
  const auto &first = rank.stages[0], &last = rank.stages[1];
  EXPECT_EQ(first.master.begin, 0U);
  EXPECT_EQ(first.master.bytes, 512U + 128U);
  EXPECT_EQ(last.master.begin, first.master.bytes);
  EXPECT_EQ(last.master.bytes, 128U);
  EXPECT_EQ(last.at("norm").offset, last.master.begin);
  EXPECT_EQ(first.copy.bytes, 256U + 128U);
  EXPECT_EQ(last.copy.begin, first.copy.bytes);
  EXPECT_EQ(last.copy.bytes, 0U);
  EXPECT_EQ(first.accumulator_bytes, 512U + 128U);
  EXPECT_EQ(last.accumulator_bytes, 512U + 128U);
  ASSERT_EQ(last.accumulators.size(), 2U);
  EXPECT_EQ(last.accumulators[0].shape, (kernels::Shape{16, 8}));
  EXPECT_EQ(last.accumulators[1].offset, 512U);
  EXPECT_EQ(last.at("norm").uses[0].accumulator, 512U);
  EXPECT_EQ(lay_out(tied(), kernels::DType::f32).stages[0].copy.bytes, 0U);
}

TEST(ShardLayout, AStageWithoutParametersHasAnEmptyShard) {
  const auto rank = lay_out({{"a", {4}, StageId{1}, 0, 0, true}}, kernels::DType::f32);
  EXPECT_EQ(rank.stages[0].stage, StageId{0});
  EXPECT_TRUE(rank.stages[0].tensors.empty());
  EXPECT_EQ(rank.stages[0].master.bytes + rank.stages[0].accumulator_bytes, 0U);
  EXPECT_EQ(rank.stages[1].at("a").offset, 0U);
}

/// The layer says in what a parameter computes, whatever the number of its axes.
TEST(ShardLayout, OnlyWhatComputesInBf16IsCopied) {
  const auto bf16 = lay_out({{"router", {16, 8}, StageId{0}, 0, 0, true, false, true, {}, true}, {"gains", {8}, StageId{0}, 0, 1, false}},
                            kernels::DType::bf16);
  EXPECT_FALSE(bf16.stages[0].at("router").copied);
  EXPECT_TRUE(bf16.stages[0].at("gains").copied);
}

// The place that copies which are only packed take in turns is one for all shards: as large as the largest of them, and after everything
// else.
TEST(ShardLayout, CopiesThatAreOnlyPackedTakeTurns) {
  const std::vector<StageParameter> parameters{{"a", {16, 8}, StageId{0}, 0, 0, true, false, false, {true, true}},
                                               {"b", {8, 8}, StageId{0}, 0, 1, true, false, true, {}},
                                               {"c", {4, 8}, StageId{1}, 0, 2, true, false, false, {true, false}}};
  const auto bf16 = lay_out(parameters, kernels::DType::bf16);
  const auto &a = bf16.stages[0].at("a"), &b = bf16.stages[0].at("b"), &c = bf16.stages[1].at("c");
  EXPECT_TRUE(a.copied && b.copied && c.copied);
  EXPECT_EQ(a.copy, c.copy);
  EXPECT_NE(a.copy, b.copy);
  const std::set<std::size_t> places{a.copy, b.copy, a.packed_copy[0], a.packed_copy[1], c.packed_copy[0]};
  EXPECT_EQ(places.size(), 5U);
  EXPECT_EQ(a.copy, bf16.stages[1].copy.begin + bf16.stages[1].copy.bytes);
  EXPECT_EQ(bf16.shared_copy, 16U * 8U * 2U);
  const auto fp32 = lay_out(parameters, kernels::DType::f32);
  EXPECT_FALSE(fp32.stages[0].at("a").copied);
  EXPECT_EQ(fp32.shared_copy, 0U);
  EXPECT_EQ(fp32.stages[1].copy.bytes, kernels::align_up(kernels::packed_bytes(4, 8, kernels::DType::f32)));
}

/// Its packed copies have the size of fp32, whatever the rest computes in.
TEST(ShardLayout, AMatrixThatIsReadInF32IsPackedInF32) {
  const auto rank = lay_out({{"router", {32, 40}, StageId{0}, 0, 0, true, false, false, {true, true}, true},
                             {"next", {4, 8}, StageId{0}, 0, 1, true, false, false, {true, false}}},
                            kernels::DType::bf16);
  const auto &router = rank.stages[0].at("router"), &next = rank.stages[0].at("next");
  EXPECT_FALSE(router.copied);
  EXPECT_EQ(router.packed_copy[1] - router.packed_copy[0], kernels::align_up(kernels::packed_bytes(32, 40, kernels::DType::f32)));
  EXPECT_EQ(next.packed_copy[0] - router.packed_copy[1], kernels::align_up(kernels::packed_bytes(40, 32, kernels::DType::f32)));
  EXPECT_EQ(rank.shared_copy, kernels::align_up(4U * 8U * 2U)) << "the router needs no bf16 copy to be packed from";
}

/// What programs of bf16 read of a matrix in fp32, packed for products forward and back, is what its master holds.
TEST(ShardLayout, PackedCopiesHoldWhatTheMastersHold) {
  ProgramBuilder builder({kernels::DType::bf16, 2, 4});
  const auto x = embedding(builder, builder.batch("tokens"), builder.parameter("table", {11, 40}), "embedding");
  const auto h = linear(builder, x, builder.parameter("before", {40, 40}), "before");
  const auto y = linear(builder, to_f32(builder, h, "wide"), builder.parameter("router", {32, 40}, in_f32), "router");
  builder.loss_term({.name = "lm_loss"},
                    linear_cross_entropy(builder, y, builder.parameter("head", {11, 32}, in_f32), builder.batch("targets"), {}, "loss"));
  RankStage stage;
  stage.stage = StageId{0};
  stage.training = differentiate(builder.finish(), {});
  stage.parameters = parameters_of(stage.training, stage.stage);
  std::vector<RankStage> stages;
  stages.push_back(std::move(stage));
  RankOptions options;
  options.compute = kernels::DType::bf16;
  const RankCompute rank(std::move(stages), options);
  const Stage& only = rank.stage(StageId{0});
  for (const StoredParameter& tensor : only.shard().tensors()) {
    const auto master = only.shard().master(tensor.name);
    for (std::size_t i = 0; i < master.size(); ++i) master[i] = 1.0F + static_cast<float>(i) * 0x1p-12F;
  }
  kernels::ThreadTeam team(1);
  only.shard().refresh_copies(kernels::ExecutionContext(team));
  int packed = 0;
  const ProgramSet& programs = only.programs(Pass::backward);
  for (std::size_t id = 0; id < programs.values.size(); ++id) {
    const Value& value = programs.values[id];
    if (value.role != Role::parameter || value.form == WeightForm::plain) continue;
    std::vector<float> room(static_cast<std::size_t>(value.type.shape.elements()));
    const kernels::Tensor found = kernels::make_tensor(room.data(), value.type.dtype, value.type.shape);
    kernels::unpack(only.tensor(Pass::backward, {static_cast<std::int32_t>(id)}, {}).data, value.form == WeightForm::packed_turned, found);
    const auto master = only.shard().master(value.name);
    for (std::size_t i = 0; i < master.size(); ++i) {
      if (value.type.dtype == kernels::DType::f32)
        ASSERT_EQ(room[i], master[i]) << value.name << " " << i;
      else
        ASSERT_EQ(found.as<kernels::BFloat16>()[i].bits, kernels::to_bfloat16(master[i]).bits) << value.name << " " << i;
    }
    ++packed;
  }
  EXPECT_EQ(packed, kernels::packs_operands() ? 4 : 0);  // `before` and `router`, each in both forms
}

TEST(ShardLayout, AStackIsPackedMatrixByMatrix) {
  const auto rank = lay_out({{"experts", {3, 16, 70}, StageId{0}, 0, 0, true, false, false, {true, true}}}, kernels::DType::f32);
  EXPECT_EQ(rank.stages[0].copy.bytes,
            3 * (kernels::packed_bytes(16, 70, kernels::DType::f32) + kernels::packed_bytes(70, 16, kernels::DType::f32)));
  const auto& experts = rank.stages[0].at("experts");
  EXPECT_EQ(experts.packed_copy[1] - experts.packed_copy[0], 3 * kernels::packed_bytes(16, 70, kernels::DType::f32));
}

// The table has a copy in every form that a stage of the rank reads, in the shard where it lies.
TEST(ShardLayout, ATiedTableHasTheFormsOfBothUses) {
  const auto rank = lay_out({{"table", {16, 8}, StageId{0}, 0, 0, true, false, true, {}},
                             {"table", {16, 8}, StageId{1}, 1, 0, true, false, false, {true, false}}},
                            kernels::DType::bf16);
  const auto& table = rank.stages[0].at("table");
  EXPECT_TRUE(table.plain);
  EXPECT_TRUE(table.packed[0]);
  EXPECT_EQ(rank.stages[0].copy.bytes, 256U + kernels::align_up(kernels::packed_bytes(16, 8, kernels::DType::bf16)));
  EXPECT_EQ(rank.stages[1].copy.bytes, 0U);
  expect_place(rank.stages[1].places().parameter(value("table", kernels::DType::bf16, WeightForm::packed, 1)), Region::copy,
               table.packed_copy[0]);
}

TEST(ShardLayout, RefusesOneUseTwice) {
  tests::expect_error(
      [] {
        (void)lay_out({{"a", {4}, StageId{0}, 0, 0, true}, {"a", {4}, StageId{1}, 0, 0, true}}, kernels::DType::f32);
      },
      ExitCode::internal, {"use 0 of a", "twice"});
  tests::expect_error(
      [] {
        (void)lay_out({{"a", {4}, StageId{0}, 0, 0, true}, {"a", {5}, StageId{1}, 1, 0, true}}, kernels::DType::f32);
      },
      ExitCode::internal, {"[4]", "[5]"});
  tests::expect_error([] { (void)lay_out(tied(), kernels::DType::f32).stages[1].at("b"); }, ExitCode::internal, {"\"b\"", "stage 1"});
}

// What a stage's programs declare: each weight once, in their order, whether they read it packed as well or not.
TEST(ShardLayout, TakesTheParametersOfPrograms) {
  ProgramSet programs;
  const auto add = [&](const char* name, kernels::Shape shape, Role role, int use, WeightForm form) {
    Value value;
    value.type.shape = shape;
    value.role = role;
    value.name = name;
    value.use = use;
    value.form = form;
    programs.values.push_back(value);
  };
  add("x", {4, 8}, Role::boundary_in, 0, WeightForm::plain);
  add("norm", {8}, Role::parameter, 0, WeightForm::plain);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::plain);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::packed);
  add("matrix", {16, 8}, Role::parameter, 0, WeightForm::packed_turned);
  add("matrix", {16, 8}, Role::accumulator, 0, WeightForm::plain);
  add("table", {11, 8}, Role::parameter, 1, WeightForm::plain);
  const auto list = parameters_of(programs, StageId{3});
  ASSERT_EQ(list.size(), 3U);
  const std::vector<std::string> names{"norm", "matrix", "table"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i].name, names[i]);
    EXPECT_EQ(list[i].stage, StageId{3});
    EXPECT_EQ(list[i].order, static_cast<int>(i));
    EXPECT_EQ(list[i].use, i == 2 ? 1 : 0);
    EXPECT_EQ(list[i].decays, i > 0) << "matrices decay";
    EXPECT_FALSE(list[i].copy);
    EXPECT_TRUE(list[i].plain);
    EXPECT_FALSE(list[i].packed[0] || list[i].packed[1]);
  }
  EXPECT_EQ(list[1].shape, (kernels::Shape{16, 8}));
}

TEST(ShardLayout, PlacesAreThoseOfItsTensors) {
  const std::vector<StageParameter> parameters{{"a", {16, 8}, StageId{0}, 0, 0, true, false, true, {true, true}},
                                               {"a", {16, 8}, StageId{1}, 1, 0, true, false, true, {}},
                                               {"norm", {8}, StageId{1}, 0, 1, false, false, true, {}, true}};
  const auto rank = lay_out(parameters, kernels::DType::bf16);
  const auto& a = rank.stages[0].at("a");
  for (const ShardLayout& shard : rank.stages) {
    const auto places = shard.places();
    expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::plain)), Region::copy, a.copy);
    expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::packed)), Region::copy, a.packed_copy[0]);
    expect_place(places.parameter(value("a", kernels::DType::bf16, WeightForm::packed_turned)), Region::copy, a.packed_copy[1]);
  }
  EXPECT_EQ(std::set<std::size_t>({a.copy, a.packed_copy[0], a.packed_copy[1]}).size(), 3U);
  const auto first = rank.stages[0].places(), last = rank.stages[1].places();
  expect_place(last.parameter(value("norm", kernels::DType::f32, WeightForm::plain)), Region::master, 512);
  expect_place(last.accumulator(value("norm", kernels::DType::f32, WeightForm::plain)), Region::accumulator, 512);
  for (const int use : {0, 1}) {
    const auto& places = use == 0 ? first : last;
    const auto& other = use == 0 ? last : first;
    const Value sum = value("a", kernels::DType::f32, WeightForm::plain, use);
    expect_place(places.accumulator(sum), Region::accumulator, 0);
    tests::expect_error([&] { (void)other.accumulator(sum); }, ExitCode::internal,
                        {"no accumulator for use " + std::to_string(use) + " of a"});
  }
}

// A tied table is owned by the rank of the embedding; among replicas the first one is the owner.
TEST(ShardLayout, AnOwnerHasTheFirstUseAndNoCopy) {
  const auto owns = [](int use, bool copy) {
    return lay_out({{"a", {4}, StageId{0}, use, 0, true, copy}}, kernels::DType::f32).stages[0].at("a").is_owner();
  };
  EXPECT_TRUE(owns(0, false));
  EXPECT_FALSE(owns(1, false));
  EXPECT_FALSE(owns(0, true));
  EXPECT_FALSE(owns(1, true));
  const auto both = lay_out({{"a", {4}, StageId{0}, 1, 0, true}, {"a", {4}, StageId{1}, 0, 0, true}}, kernels::DType::f32);
  const auto& tensor = both.stages[1].at("a");
  EXPECT_TRUE(tensor.is_owner());
  EXPECT_EQ(tensor.uses[0].use, 0) << "ascending";
  EXPECT_TRUE(tensor.has_use(1));
  EXPECT_FALSE(tensor.has_use(2));
}

// -- divided between replicas ---------------------------------------------------------------------------------------------------------

std::shared_ptr<const Optimizer> optimizer(const std::string& name, const std::string& first_moment = "fp32") {
  TrainConfig train;
  train.optimizer = name;
  train.first_moment = first_moment;
  return make_optimizer(train);
}

StageParameter weight(const std::string& name, kernels::Shape shape, int order) {
  StageParameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.stage = StageId{0};
  parameter.order = order;
  return parameter;
}

TEST(DividedShards, HaveTheStatesOfWhatTheyOwn) {
  const auto adamw = optimizer("adamw");
  const std::int64_t rows = 5 << 10;  // of 1024: five hash chunks of 4 MiB
  const std::vector<StageParameter> parameters{weight("matrix", {rows, 1024}, 0), weight("norm", {100}, 1)};
  std::size_t states = 0, staged = 0;
  std::int64_t owned = 0;
  for (int member = 0; member < 2; ++member) {
    const auto rank = lay_out_shards(two_stages, parameters, kernels::DType::f32, adamw.get(), {{2, member}, {}, 0});
    const ShardLayout& shard = rank.stages[0];
    const StoredParameter& matrix = shard.at("matrix");
    EXPECT_TRUE(matrix.divided);
    EXPECT_EQ(matrix.owned.first % (1 << 20), 0) << "between chunks that are hashed";
    EXPECT_EQ(matrix.reported(), matrix.owned);
    owned += matrix.owned.count;
    states += shard.state_bytes;
    staged += shard.staged_bytes;
    std::size_t in_runs = 0;
    for (const auto& [from, to, bytes] : shard.staged_runs) in_runs += bytes;
    EXPECT_EQ(kernels::align_up(in_runs), shard.staged_bytes);
    EXPECT_EQ(shard.staged_runs.front().from, matrix.offset + static_cast<std::size_t>(matrix.owned.first) * 4);
    EXPECT_EQ(shard.master.bytes, static_cast<std::size_t>(rows) * 4096 + 512) << "all parameters are here";
    EXPECT_EQ(shard.reported_pieces(), static_cast<std::size_t>((matrix.owned.count + piece_elements - 1) / piece_elements) +
                                           (shard.at("norm").owned.empty() ? 0U : 1U));
  }
  EXPECT_EQ(owned, rows * 1024);
  EXPECT_EQ(staged, static_cast<std::size_t>(rows) * 4096 + 512) << "a snapshot has every parameter once";
  EXPECT_EQ(states, 2U * (static_cast<std::size_t>(rows) * 4096 + 512)) << "two moments of all, between the two";
}

TEST(DividedShards, AreCutWhereTheSmallestStateHasAChunk) {
  EXPECT_EQ(division_unit({3000, 1000}, false, {}, nullptr), 1 << 20);
  EXPECT_EQ(division_unit({3000, 1000}, false, {}, optimizer("adamw", "bf16").get()), 1 << 21);
  EXPECT_EQ(division_unit({8, 30, 10}, true, {}, nullptr), 300) << "an expert";
  EXPECT_EQ(division_unit({3000, 1000}, false, {1, 3000, 1000, true}, optimizer("adamw").get()), 1 << 20);
  EXPECT_EQ(division_unit({3000, 1000}, false, {1, 3000, 1000, true}, optimizer("muon").get()), 3000000) << "a matrix";
}

TEST(DividedShards, KeepTheSumsOfWhatTheyOwn) {
  const std::vector<StageParameter> parameters{weight("matrix", {5 << 10, 1024}, 0), weight("norm", {100}, 1)};
  std::size_t kept = 0;
  for (int member = 0; member < 2; ++member) {
    const auto rank = lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, {{2, member}, {}, 0, true});
    const ShardLayout& shard = rank.stages[0];
    EXPECT_TRUE(shard.divides_sums);
    EXPECT_EQ(shard.accumulator_bytes, (std::size_t{5} << 22) + 512) << "programs add to all of them";
    kept += shard.kept_bytes;
    for (const StoredParameter& tensor : shard.tensors) {
      EXPECT_TRUE(tensor.sums_divided);
      EXPECT_EQ(tensor.kept(), tensor.owned);
      EXPECT_TRUE(tensor.owned.empty() || tensor.uses[0].kept < shard.kept_bytes) << tensor.name;
    }
    for (const ShardLayout::Bucket& bucket : shard.buckets) {
      const auto own = static_cast<std::size_t>(member);
      EXPECT_LE(bucket.kept + bucket.cuts[own + 1] - bucket.cuts[own], shard.kept_bytes);
    }
    ASSERT_EQ(shard.accumulators.size(), 2U);
    EXPECT_EQ(shard.accumulators[0].kept, shard.at("matrix").owned);
    EXPECT_EQ(shard.accumulators[0].offset, shard.at("matrix").uses[0].kept);
  }
  EXPECT_EQ(kept, (std::size_t{5} << 22) + 512) << "between the two as much as one has otherwise";
  const auto alone = lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, {{1, 0}, {}, 0, true});
  EXPECT_FALSE(alone.stages[0].divides_sums);
  EXPECT_EQ(alone.stages[0].kept_bytes, alone.stages[0].accumulator_bytes);
}

ShardDivision division_of_masters(int member, int slots) {
  return {.replicas = {2, member}, .expert_replicas = {}, .bucket_bytes = 0, .sums = false, .slots = slots};
}

// Four stages with a matrix of five hash chunks and a norm each, in two slots.
TEST(DividedMasters, AreGatheredInSlots) {
  std::vector<StageId> stages;
  std::vector<StageParameter> parameters;
  for (int stage = 0; stage < 4; ++stage) {
    stages.emplace_back(stage);
    for (auto parameter : {weight("matrix" + std::to_string(stage), {5 << 10, 1024}, 2 * stage), weight("norm", {100}, 2 * stage + 1)}) {
      if (parameter.name == "norm") parameter.name += std::to_string(stage);
      parameter.stage = StageId{stage};
      parameter.in_f32 = parameter.shape.rank() == 1;
      parameter.packed = {parameter.shape.rank() > 1, false};
      parameters.push_back(parameter);
    }
  }
  const std::size_t elements = std::size_t{5} << 20;
  std::size_t masters = 0;
  for (int member = 0; member < 2; ++member) {
    const auto rank = lay_out_shards(stages, parameters, kernels::DType::bf16, nullptr, division_of_masters(member, 2));
    ASSERT_EQ(rank.slots.size(), 2U);
    EXPECT_EQ(rank.shared_copy, 0U) << "all copies are in the slots";
    for (std::size_t index = 0; index < 4; ++index) {
      const ShardLayout& shard = rank.stages[index];
      EXPECT_EQ(shard.slot, static_cast<int>(index % 2));
      EXPECT_EQ(shard.copy.bytes, 0U);
      masters += shard.master.bytes;
      const StoredParameter &matrix = shard.tensors[0], &norm = shard.tensors[1];
      EXPECT_EQ(matrix.held(), matrix.owned);
      const std::size_t begin = index % 2 == 0 ? 0 : rank.slots[0];
      EXPECT_EQ(matrix.uses[0].gathered, begin);
      EXPECT_EQ(norm.uses[0].gathered, begin + 2 * elements) << "in fp32 after a bf16 matrix";
      EXPECT_EQ(matrix.uses[0].packed_gathered[0], begin + 2 * elements + 512);
      EXPECT_LE(shard.slot_bytes, rank.slots[index % 2]);
      expect_place(shard.places().parameter(value(matrix.name.c_str(), kernels::DType::bf16, WeightForm::plain)), Region::copy, begin);
      expect_place(shard.places().parameter(value(norm.name.c_str(), kernels::DType::f32, WeightForm::plain)), Region::copy,
                   norm.uses[0].gathered);
      ASSERT_EQ(shard.buckets.size(), 2U);
      EXPECT_EQ(shard.buckets[0].master, ShardLayout::nowhere);
      const auto own = static_cast<std::size_t>(member);
      EXPECT_EQ(shard.buckets[0].gathered[own], begin + 2 * static_cast<std::size_t>(matrix.owned.first));
      EXPECT_EQ(shard.buckets[0].gathered[own + 1] - shard.buckets[0].gathered[own], 2 * static_cast<std::size_t>(matrix.owned.count));
      ASSERT_EQ(shard.buckets[0].own.size(), 1U);
      EXPECT_EQ(shard.buckets[0].own[0].master, matrix.offset);
      EXPECT_EQ(shard.buckets[0].own[0].elements, matrix.owned.count);
      EXPECT_EQ(shard.staged_bytes, shard.master.bytes);
    }
  }
  EXPECT_EQ(masters, 4 * (4 * elements + 512)) << "both members together have each master once";
}

// A table that two stages of the rank read is in the slot of each, and its masters are once.
TEST(DividedMasters, OfATiedTableAreGatheredByEachStage) {
  auto parameters = tied();
  for (StageParameter& parameter : parameters) parameter.tied = parameter.name == "table";
  const auto rank = lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, division_of_masters(0, 2));
  const auto &first = rank.stages[0], &last = rank.stages[1];
  const StoredParameter& table = first.at("table");
  ASSERT_EQ(last.borrowed.size(), 1U);
  EXPECT_EQ(last.borrowed[0].offset, table.offset);
  EXPECT_EQ(first.buckets[0].own.size(), last.buckets[0].own.size());
  EXPECT_LT(table.first_use_by(StageId{0}).gathered, rank.slots[0]);
  EXPECT_GE(table.first_use_by(StageId{1}).gathered, rank.slots[0]);
  EXPECT_EQ(first.buckets[0].gathered.front(), table.first_use_by(StageId{0}).gathered);
  EXPECT_EQ(last.buckets[0].gathered.front(), table.first_use_by(StageId{1}).gathered);
}

TEST(DividedShards, DivideATiedTableByItself) {
  auto parameters = tied();
  for (StageParameter& parameter : parameters) parameter.tied = parameter.name == "table";
  const auto rank = lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, {{2, 1}, {}, std::size_t{1} << 30});
  const auto &first = rank.stages[0], &last = rank.stages[1];
  ASSERT_EQ(first.buckets.size(), 2U);
  EXPECT_EQ(first.buckets[0].cuts.back(), 512U) << "the table";
  EXPECT_EQ(first.buckets[0].master, first.at("table").offset);
  EXPECT_EQ(first.buckets[1].master, first.at("bias").offset);
  ASSERT_EQ(last.buckets.size(), 2U);
  EXPECT_EQ(last.buckets[0].cuts, first.buckets[0].cuts) << "the gradient of its second use is divided alike";
  EXPECT_EQ(last.buckets[0].master, ShardLayout::nowhere) << "the parameters are in the first stage's shard";
}

TEST(DividedShards, KeepWeightsOfExpertsTogether) {
  std::vector<StageParameter> parameters;
  for (int layer = 0; layer < 2; ++layer) {
    parameters.push_back(weight("up" + std::to_string(layer), {4, 16, 16}, 2 * layer));
    parameters.back().experts = {0, 4};
    parameters.push_back(weight("attention" + std::to_string(layer), {16, 16}, 2 * layer + 1));
  }
  const auto rank = lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, {{2, 0}, {2, 0}, std::size_t{1} << 30});
  const ShardLayout& shard = rank.stages[0];
  ASSERT_EQ(shard.buckets.size(), 2U);
  EXPECT_FALSE(shard.buckets[0].experts);
  EXPECT_TRUE(shard.buckets[1].experts);
  for (const ShardLayout::Bucket& bucket : shard.buckets) {
    for (const StoredParameter& tensor : shard.tensors) {
      if (tensor.experts.present() != bucket.experts) continue;
      EXPECT_EQ(tensor.offset - bucket.master, tensor.uses[0].accumulator - bucket.cuts.front()) << tensor.name;
    }
  }
  EXPECT_EQ(shard.at("up0").owned.count % 256, 0) << "whole experts";
  EXPECT_FALSE(lay_out_shards(two_stages, parameters, kernels::DType::f32, nullptr, {{2, 0}, {}, 0}).stages[0].at("up0").divided)
      << "nobody else has them";
}

}  // namespace
}  // namespace millrace::runtime
