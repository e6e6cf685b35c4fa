// The state of a mixture that several ranks share by experts, each with its own of every layer: it has the bits, the norm, the hash and the
// files of one rank that has them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/jobs/tensor_gather.hpp"
#include "actors/rank/initial_state.hpp"
#include "actors/rank/rank_blueprint.hpp"
#include "actors/rank/recorded_parts.hpp"
#include "actors/rank/snapshot.hpp"
#include "kernels/square_sum.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/initial_values.hpp"
#include "runtime/engine/optimizer_step.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::actors {
namespace {

using layers::ParameterSpec;
using runtime::StageId;
using runtime::StoredParameter;
using tests::expect_error;

constexpr StageId only_stage{0};

PipelinePlan mixture_plan(const std::string& optimizer = "adamw") {
  PlanRequest request;
  request.model.family = "mixtral";
  request.model.vocab_size = 31;
  request.model.hidden_size = 46;
  request.model.intermediate_size = 101;  // the values of an expert are neither whole chunks of a norm nor blocks of random words
  request.model.layers = 2;
  request.model.heads = request.model.kv_heads = 2;
  request.model.head_dim = 8;
  request.model.experts = 4;
  request.model.experts_per_token = 2;
  request.train.batch = 1;
  request.train.sequence = 8;
  request.train.microbatches = 1;
  request.train.optimizer = optimizer;
  request.train.weight_decay = 0.25;
  return make_plan(request);
}

/// One of the ranks that share the experts of a model, with no more than its state: every rank has a copy of all other weights, which
/// belongs to the first.
class Owner {
 public:
  Owner(const PipelinePlan& plan, int owner, int owners)
      : plan_(plan),
        shards_(
            runtime::lay_out_shards(std::array{only_stage}, parameters(plan, owner, owners), kernels::DType::f32, plan.optimizer.get())),
        memory_(runtime::RankMemoryPlan(request())),
        shard_(layout(), memory_, plan.optimizer) {}

  [[nodiscard]] const runtime::StageShard& shard() const { return shard_; }
  [[nodiscard]] const kernels::ExecutionContext& context() const { return context_; }

  void fill_from_seed(std::uint64_t seed) {
    actors::fill_from_seed(context_, shard_, plan_.parameters, plan_.model.initializer_range, seed);
  }
  /// Gradients that are a function of the tensor and the element.
  void fill_gradients() {
    for (const StoredParameter& tensor : shard_.tensors()) {
      ParameterSpec spec = plan_.parameters.at(static_cast<std::size_t>(tensor.order));
      if (tensor.experts.present()) spec = layers::slice_of(spec, tensor.experts.first, tensor.shape[0]);
      spec.initial = {};
      shard_.fill(context_, shard_.gradient(tensor), [&](std::span<float> values) { layers::initial_values(spec, 1.0, 7, 0, values); });
    }
  }
  [[nodiscard]] std::vector<runtime::TensorSquareSum> square_sums() const {
    std::vector<runtime::TensorSquareSum> sums;
    runtime::compute_square_sums(context_, shard_);
    runtime::read_square_sums(shard_, sums);
    return sums;
  }
  void update() { runtime::apply_optimizer(context_, {.learning_rate = 0.125, .gradient_scale = 0.5F}, shard_); }
  [[nodiscard]] runtime::ShardReport write(const std::string& folder, int writer, int writers) const {
    shard_.take_snapshot(context_);
    std::vector<runtime::CheckpointTensor> tensors;
    add_snapshot(shard_, tensors);
    return runtime::ShardReport::from_text(runtime::write_shard(folder, writer, writers, tensors).text());
  }

 private:
  static std::vector<runtime::StageParameter> parameters(const PipelinePlan& plan, int owner, int owners) {
    std::vector<runtime::StageParameter> all;
    for (const ParameterSpec& whole : plan.parameters) {
      const std::int64_t each = whole.experts.whole / owners;
      const ParameterSpec own = whole.experts.present() ? layers::slice_of(whole, owner * each, each) : whole;
      all.push_back(stage_parameter(plan, own, only_stage));
      all.back().copy = owner > 0 && !whole.experts.present();
    }
    return all;
  }
  [[nodiscard]] const runtime::ShardLayout& layout() const { return shards_.stages.front(); }
  [[nodiscard]] runtime::RankMemoryRequest request() const {
    runtime::StageMemoryRequest stage;
    stage.stage = only_stage;
    stage.master = layout().master.bytes;
    stage.accumulator = layout().accumulator_bytes;
    stage.staged = layout().staged_bytes;
    stage.expert_accumulator = layout().expert_accumulator_bytes;
    stage.state = layout().state_bytes;
    stage.square = layout().reported_pieces() * sizeof(double);
    for (const StoredParameter& tensor : layout().tensors)
      stage.workspace = std::max(stage.workspace, plan_.optimizer->scratch_bytes(tensor.matrices, {{}, 1}));
    return {.staging = true, .stages = {stage}};
  }

  const PipelinePlan& plan_;
  kernels::ThreadTeam team_{1};
  kernels::ExecutionContext context_{team_};
  runtime::RankShards shards_;
  runtime::RankMemory memory_;
  runtime::StageShard shard_;
};

using Owners = std::vector<std::unique_ptr<Owner>>;

Owners owners_of(const PipelinePlan& plan, int count) {
  Owners owners;
  for (int owner = 0; owner < count; ++owner) owners.push_back(std::make_unique<Owner>(plan, owner, count));
  return owners;
}

/// Parameters and states as bits, by name, each whole.
std::map<std::string, std::vector<std::uint32_t>> state_of(const Owners& owners) {
  std::map<std::string, std::vector<std::uint32_t>> state;
  for (const auto& owner : owners) {
    const runtime::StageShard& shard = owner->shard();
    for (const StoredParameter& tensor : shard.tensors()) {
      if (!tensor.is_owner()) continue;
      const auto add = [&](const std::string& name, std::span<const float> values) {
        auto& bits = state[name];
        for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
      };
      add(tensor.name, shard.master(tensor.name));
      for (std::size_t i = 0; i < shard.states().size(); ++i)
        if (tensor.has_state(i)) add(shard.states()[i].tensor_name(tensor.name), shard.state(tensor.name, i));
    }
  }
  return state;
}

void expect_same_state(const Owners& owners, const Owners& expected) {
  const auto found = state_of(owners), whole = state_of(expected);
  ASSERT_EQ(found.size(), whole.size());
  for (const auto& [name, bits] : whole) EXPECT_TRUE(found.at(name) == bits) << name << " of " << owners.size() << " owners";
}

/// Saves the owners' state as the checkpoint of step 1 of a run.
std::string save(const Owners& owners, const std::string& run) {
  runtime::CheckpointStore store(run);
  const auto folder = store.begin(1, 1 << 20);
  std::vector<runtime::ShardReport> reports;
  const auto writers = static_cast<int>(owners.size());
  for (int writer = 0; writer < writers; ++writer)
    reports.push_back(owners[static_cast<std::size_t>(writer)]->write(folder, writer, writers));
  runtime::CheckpointMeta meta;
  meta.step = 1;
  return store.commit(folder, reports, meta).folder;
}

TEST(ExpertSlices, HaveTheInitialValuesOfTheWhole) {
  const auto plan = mixture_plan();
  const auto whole = owners_of(plan, 1);
  whole[0]->fill_from_seed(3);
  for (const int count : {2, 4}) {
    const auto owners = owners_of(plan, count);
    for (const auto& owner : owners) owner->fill_from_seed(3);
    expect_same_state(owners, whole);
  }
}

TEST(ExpertSlices, HaveTheNormOfTheWhole) {
  const auto plan = mixture_plan();
  const auto norm_of = [&](const Owners& owners) {
    std::vector<runtime::TensorSquareSum> sums;
    for (const auto& owner : owners) {
      owner->fill_gradients();
      const auto own = owner->square_sums();
      sums.insert(sums.begin(), own.begin(), own.end());  // reports come in any order
    }
    return runtime::global_norm(sums);
  };
  const auto whole = owners_of(plan, 1);
  const double norm = norm_of(whole);
  EXPECT_EQ(whole[0]->square_sums().size(), plan.parameters.size()) << "one number for a tensor that a rank has whole";
  // Tensor by tensor and expert by expert, each summed as a tensor of its own.
  double total = 0;
  for (const StoredParameter& tensor : whole[0]->shard().tensors()) {
    const kernels::Tensor gradient = whole[0]->shard().gradient(tensor);
    double own = 0;
    for (std::int64_t part = 0; part < tensor.parts(); ++part) {
      kernels::Tensor expert = gradient;
      expert.shape = {gradient.elements() / tensor.parts()};
      expert.data += static_cast<std::size_t>(part) * expert.bytes();
      double sum = 0;
      kernels::square_sum(whole[0]->context(), expert, {reinterpret_cast<std::byte*>(&sum), kernels::DType::f64, {1}});
      own += sum;
    }
    total += own;
  }
  EXPECT_EQ(norm, std::sqrt(total));
  for (const int count : {2, 4}) EXPECT_EQ(norm_of(owners_of(plan, count)), norm) << count;
  auto incomplete = owners_of(plan, 4);
  incomplete.erase(incomplete.begin() + 2);
  expect_error([&] { (void)norm_of(incomplete); }, ExitCode::internal, {"square sums", "piece 3 of 4 after 2 of its 4"});
}

/// Owners after one update from initial values.
auto updated_owners(const PipelinePlan& plan, int count) {
  auto owners = owners_of(plan, count);
  for (const auto& owner : owners) {
    owner->fill_from_seed(3);
    owner->fill_gradients();
    owner->update();
  }
  return owners;
}

TEST(ExpertSlices, AreUpdatedLikeTheWhole) {
  for (const char* optimizer : {"adamw", "muon"}) {
    const auto plan = mixture_plan(optimizer);
    const auto whole = updated_owners(plan, 1);
    for (const int count : {2, 4}) expect_same_state(updated_owners(plan, count), whole);
    const auto untouched = owners_of(plan, 1);
    untouched[0]->fill_from_seed(3);
    EXPECT_NE(state_of(whole), state_of(untouched));
  }
}

TEST(ExpertSlices, CheckpointsAreReadByAnyNumberOfOwners) {
  const auto plan = mixture_plan();
  const auto whole = updated_owners(plan, 1);
  const tests::TemporaryFolder folder;
  std::string hash;
  for (const int writers : {1, 2, 4}) {
    const std::string place = save(updated_owners(plan, writers), folder / fmt::format("run{}", writers));
    EXPECT_TRUE(runtime::verify_checkpoint(place).empty());
    const runtime::CheckpointReader checkpoint(place);
    if (hash.empty()) hash = checkpoint.state_hash().hex();
    EXPECT_EQ(checkpoint.state_hash().hex(), hash) << writers;
    EXPECT_EQ(checkpoint.hash_data().hex(), hash) << writers;
    for (const int readers : {1, 2, 4}) {
      auto owners = owners_of(plan, readers);
      for (const auto& owner : owners) fill_from_checkpoint(owner->context(), owner->shard(), checkpoint);
      expect_same_state(owners, whole);
    }
    // What an export reads.
    for (const ParameterSpec& spec : plan.parameters) {
      EXPECT_EQ(checkpoint.at(spec.name).shape, spec.shape.sizes());
      std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()));
      checkpoint.read(spec.name, values);
      EXPECT_TRUE(std::ranges::equal(values, whole[0]->shard().master(spec.name))) << spec.name;
    }
  }
}

TEST(ExpertSlices, ACheckpointWithoutSomeExpertsIsNotCommitted) {
  const auto plan = mixture_plan();
  auto owners = owners_of(plan, 4);
  for (const auto& owner : owners) owner->fill_from_seed(3);
  const tests::TemporaryFolder folder;
  const std::string name = "model.layers.0.block_sparse_moe.experts.w1.weight";
  std::swap(owners[2], owners[1]);
  const auto spare = std::move(owners.back());
  owners.pop_back();
  expect_error([&] { save(owners, folder / "missing"); }, ExitCode::internal,
               {"step 1: tensor '", "experts.w1.weight' has experts 0 (shard-00000-of-00003.safetensors) and 1 (", ") and 2 (",
                "expected 0 to 3, each once"});
  owners = owners_of(plan, 2);
  owners[1] = std::make_unique<Owner>(plan, 1, 4);
  expect_error([&] { save(owners, folder / "overlapping"); }, ExitCode::internal, {"has experts 0 to 1 (", ") and 1 (", "expected 0 to 3"});
}

/// Checkpoints that were written before weights of experts were slices have them as tensors like any other.
TEST(ExpertSlices, AreReadFromAnOldCheckpoint) {
  const auto plan = mixture_plan();
  const auto whole = owners_of(plan, 1);
  whole[0]->fill_from_seed(3);
  whole[0]->shard().take_snapshot(whole[0]->context());
  std::vector<runtime::CheckpointTensor> tensors;
  add_snapshot(whole[0]->shard(), tensors);
  for (auto& tensor : tensors) tensor.experts = 0;
  const tests::TemporaryFolder folder;
  runtime::CheckpointStore store(folder / "run");
  const auto attempt = store.begin(1, 1 << 20);
  const std::vector reports{runtime::write_shard(attempt, 0, 1, tensors)};
  runtime::CheckpointMeta meta;
  meta.step = 1;
  const runtime::CheckpointReader checkpoint(store.commit(attempt, reports, meta).folder);
  EXPECT_NE(checkpoint.manifest().text().find("\"schema\": 1"), std::string::npos);
  EXPECT_EQ(checkpoint.hash_data(), checkpoint.state_hash());
  const auto owners = owners_of(plan, 4);
  for (const auto& owner : owners) fill_from_checkpoint(owner->context(), owner->shard(), checkpoint);
  expect_same_state(owners, whole);
}

TEST(ExpertSlices, AreReadFromAFolder) {
  for (const char* name : {"hf_mixtral", "hf_gpt_oss", "hf_llama4", "maxtext_mixtral", "maxtext_gpt_oss"}) {
    SCOPED_TRACE(name);
    const std::string folder = tests::source_path(fmt::format("tests/golden/{}", name));
    PlanRequest request;
    request.model = layers::read_config_file(folder).model;
    request.train.batch = 1;
    request.train.sequence = 8;
    request.train.microbatches = 1;
    const auto plan = make_plan(request);
    const auto weights = layers::open_weights(folder, plan.model);
    const auto read = [&](int count) {
      auto owners = owners_of(plan, count);
      for (const auto& owner : owners) fill_from_weights(owner->context(), owner->shard(), plan.parameters, *weights);
      return owners;
    };
    const auto whole = read(1);
    for (const int count : {2, 4}) expect_same_state(read(count), whole);
  }
}

// -- what parity gathers --------------------------------------------------------------------------------------------------------------

Collected part(int rank, std::int64_t first, std::int64_t count, std::vector<float> values, std::int64_t experts = 3) {
  return {rank, false, {"w", {count, 2}, std::move(values), first, experts}};
}

TEST(TensorGather, JoinsTheExpertsOfSeveralRanks) {
  TensorGather gather;
  gather.add({1, false, {"before", {1}, {7}}});
  gather.add(part(1, 1, 2, {3, 4, 5}));  // in two messages
  gather.add(part(0, 0, 1, {1, 2}));
  gather.add(part(1, 1, 2, {6}));
  gather.add({0, false, {"after", {1}, {8}}});
  const auto tensors = gather.take();
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].name, "before");
  EXPECT_EQ(tensors[1].name, "w");
  EXPECT_EQ(tensors[1].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(tensors[1].values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensors[2].name, "after");
}

TEST(TensorGather, RefusesMissingExperts) {
  TensorGather gather;
  gather.add(part(0, 0, 1, {1, 2}));
  gather.add(part(1, 2, 1, {3, 4}));
  expect_error([&] { (void)gather.take(); }, ExitCode::internal, {"w: found experts 2 to 2 of 3 after 1 of 3"});
  gather.add(part(0, 0, 1, {1, 2}));
  expect_error([&] { (void)gather.take(); }, ExitCode::internal, {"w: found 1 experts, expected 3"});
}

// -- what recordings name -------------------------------------------------------------------------------------------------------------

/// An operation whose result is rows in the order of experts, and one that yields their table.
struct GroupedCall {
  runtime::ProgramSet set;
  runtime::Operation table_operation, rows_operation;
  std::vector<std::int32_t> offsets;
  std::vector<float> values;
  kernels::Tensor table, rows;

  GroupedCall(const runtime::ExpertRows& groups, std::vector<std::int32_t> given, std::vector<float> elements)
      : offsets(std::move(given)), values(std::move(elements)) {
    const auto count = static_cast<std::int64_t>(values.size());
    runtime::Value of_table, of_rows;
    of_table.type = {kernels::DType::i32, {static_cast<std::int64_t>(offsets.size())}};
    of_table.expert_rows = groups;
    of_rows.type = {kernels::DType::f32, {count, 1}};
    of_rows.rows_by = {0};
    set.values = {of_table, of_rows};
    table_operation.outputs = {{0}};
    rows_operation.outputs = {{1}};
    table = {reinterpret_cast<std::byte*>(offsets.data()), kernels::DType::i32, of_table.type.shape};
    rows = {reinterpret_cast<std::byte*>(values.data()), kernels::DType::f32, of_rows.type.shape};
  }

  /// (expert, microbatch) → rows, as recorded in an action on `microbatch`.
  [[nodiscard]] std::map<std::pair<std::int64_t, int>, std::vector<float>> recorded(int microbatch, SourceMicrobatches sources = {}) {
    RecordedParts parts(sources);
    const runtime::Action action{only_stage, runtime::ActionKind::forward, runtime::MicrobatchId(microbatch)};
    parts.note({set, runtime::ProgramKind::forward, 0, table_operation, {}, {&table, 1}}, action);
    std::map<std::pair<std::int64_t, int>, std::vector<float>> found;
    const runtime::OperationHook::Call call{set, runtime::ProgramKind::forward, 1, rows_operation, {}, {&rows, 1}};
    for (const RecordedPart& each : parts.parts_of(call, 0, action)) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(each.begin / sizeof(float));
      found[{each.expert, each.microbatch}] = {begin, begin + static_cast<std::ptrdiff_t>(each.bytes / sizeof(float))};
    }
    return found;
  }
};

// Microbatches 4 and 5 of four experts on one rank; and on two ranks with two experts each, which compute them for both microbatches.
TEST(RecordedParts, RowsOfExpertsHaveOneNameWhoeverComputesThem) {
  auto expected = GroupedCall({0, 4}, {0, 2, 2, 3, 5}, {10, 11, 12, 13, 14}).recorded(4);
  EXPECT_EQ(expected.size(), 3U) << "an expert without rows has no record";
  EXPECT_EQ((expected.at({3, 4})), (std::vector<float>{13, 14}));
  expected.merge(GroupedCall({0, 4}, {0, 1, 3, 4, 4}, {20, 21, 22, 23}).recorded(5));
  auto found = GroupedCall({0, 2}, {0, 2, 2, 3, 5}, {10, 11, 20, 21, 22}).recorded(4, {.member = 0});
  found.merge(GroupedCall({2, 2}, {0, 1, 3, 4, 4}, {12, 13, 14, 23}).recorded(5, {.member = 1}));
  EXPECT_EQ(found, expected);
  // Members that are not neighbours: microbatches 0 and 3.
  const auto apart = GroupedCall({0, 1}, {0, 1, 2}, {1, 2}).recorded(3, {.member = 1, .stride = 3});
  EXPECT_TRUE(apart.contains({0, 0}) && apart.contains({0, 3}));
}

TEST(RecordedParts, OtherResultsAreWhole) {
  GroupedCall call({0, 4}, {0, 2, 2, 3, 5}, {10, 11, 12, 13, 14});
  call.set.values[1].rows_by = {};
  const auto found = call.recorded(4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ((found.at({-1, 4})), call.values);
}

TEST(RecordedParts, AWeightIsRecordedByExpert) {
  const auto plan = mixture_plan();
  const auto owners = owners_of(plan, 2);
  for (const StoredParameter& tensor : owners[1]->shard().tensors()) {
    const auto parts = parts_of(tensor);
    ASSERT_EQ(parts.size(), tensor.experts.present() ? 2U : 1U) << tensor.name;
    EXPECT_EQ(parts.back().expert, tensor.experts.present() ? 3 : -1);
    EXPECT_EQ(parts.back().begin + parts.back().bytes, tensor.bytes());
  }
}

}  // namespace
}  // namespace millrace::actors
