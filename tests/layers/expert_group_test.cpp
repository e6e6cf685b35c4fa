#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/grouped_matmul.hpp"
#include "layers/initial_values.hpp"
#include "runtime/engine/rank_compute.hpp"
#include "runtime/passes/differentiate.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/runtime/program/lockstep.hpp"
#include "tests/support/expect_error.hpp"

// Layers whose experts are shared by the ranks of a group: outputs, gradients of inputs and all sums of gradients have the bits of one rank
// with all experts, which runs the microbatches of the members by turns.
namespace millrace::layers::testing {
namespace {

using kernels::DType;
using runtime::BackwardMode;
using runtime::Pass;
using runtime::testing::Lockstep;

constexpr std::int64_t kGroupRows = 2, kGroupSequence = 7, kGroupTokens = kGroupRows * kGroupSequence, kGroupWidth = 22;

ModelConfig group_model(const std::string& name) {
  const bool maxtext = name.starts_with("maxtext ");
  const std::string family = maxtext ? name.substr(8) : name;
  ModelConfig config{.family = family,
                     .vocab_size = 61,
                     .hidden_size = kGroupWidth,
                     .intermediate_size = 19,
                     .layers = 2,
                     .heads = 3,
                     .kv_heads = 1,
                     .head_dim = 6,
                     .initializer_range = 0.3,
                     .experts = 8,
                     .experts_per_token = 3,
                     .moe_intermediate_size = 13};
  config.numerics = maxtext ? "maxtext" : "hf";
  if (family == "mixtral") config.moe_intermediate_size = 0, config.experts = 4, config.experts_per_token = 2;
  if (family == "qwen3_next") {
    config.shared_expert_intermediate_size = 11;
    config.layer_kinds = {LayerKind::linear, LayerKind::full};
    config.linear_key_heads = 1, config.linear_value_heads = 2, config.linear_key_head_dim = 5, config.linear_value_head_dim = 3;
    config.linear_conv_kernel_dim = 3;
    config.rope.proportion = 0.7;
  }
  if (family == "gpt_oss") {
    config.moe_intermediate_size = 0;
    config.swiglu_limit = 4, config.swiglu_alpha = maxtext ? 1.702 : 1.3;
    config.attention_bias = !maxtext;
    config.layer_kinds = {LayerKind::sliding, LayerKind::full};
    config.sliding_window = 4;
    if (maxtext) config.routed_bias = kernels::RouterBias::score;
  }
  if (family == "llama4") {
    config.experts = 4, config.experts_per_token = maxtext ? 1 : 2;
    config.layer_kinds = {LayerKind::chunked, LayerKind::full};
    config.attention_chunk = 4;
    config.layer_positions = {LayerPositions::rotary, LayerPositions::none};
    config.use_qk_norm = true;
    config.rope_interleaved = maxtext;
  }
  if (family.starts_with("deepseek")) {
    config.kv_heads = config.heads;
    config.q_lora_rank = 10, config.kv_lora_rank = 9, config.qk_nope_head_dim = 5, config.qk_rope_head_dim = 6, config.v_head_dim = 7;
    config.rope_interleaved = true;
    if (maxtext) config.rope = {.kind = RopeKind::yarn, .theta = 500, .factor = 4, .original_max_position = 16, .mscale_all_dim = 0.7};
    config.shared_experts = 2;
    config.routing_groups = 4, config.kept_routing_groups = 2;
    config.routed_scaling_factor = 1.6;
    if (maxtext) config.routed_score = kernels::RouterScore::sigmoid, config.routed_bias = kernels::RouterBias::choice;
  }
  return config;
}

struct Way {
  DType compute;
  BackwardMode mode;
  const char* rematerialize;
  [[nodiscard]] int threads() const { return mode == BackwardMode::fused ? 1 : 2; }
};

/// All layers of the model, on one rank of a group.
class Layers {
 public:
  Layers(const ModelConfig& config, const Way& way, const runtime::ExpertGroup& group, int accumulators)
      : config_(config),
        losses_{.balance_loss = 0.1, .router_z_loss = 0.05},
        layout_{.layer_count = static_cast<int>(config.layers)},
        team_(way.threads()),
        context_(team_),
        specs_(parameters(config, layout_, losses_, group)) {
    runtime::RankStage stage;
    stage.stage = runtime::StageId{0};
    const StageOptions options{.compute = way.compute, .rows = kGroupRows, .sequence = kGroupSequence, .losses = losses_, .experts = group};
    stage.training = runtime::differentiate(build_stage(config, layout_, options),
                                            runtime::RematerializationPolicy::parse(way.rematerialize, known_labels(config)));
    for (const ParameterSpec& spec : specs_)
      stage.parameters.push_back({.name = spec.name, .shape = spec.shape, .stage = stage.stage, .use = spec.use, .order = spec.order});
    stage.slots = {1, 1, 1, 0, 0, 0, 0, 1};
    std::vector<runtime::RankStage> stages;
    stages.push_back(std::move(stage));
    rank_ = std::make_unique<runtime::RankCompute>(
        std::move(stages),
        runtime::RankOptions{.compute = way.compute, .mode = way.mode, .accumulators = accumulators, .threads = way.threads()});
    rank_->set_loss_scales({kGroupTokens, 8});
    for (auto& buffer : buffers_) buffer = kernels::Buffer(kGroupTokens * kGroupWidth * sizeof(float));
  }

  void initialise() {
    for (const ParameterSpec& spec : specs_) {
      ParameterSpec drawn{.name = spec.name, .shape = spec.shape, .initial = spec.initial, .stored = spec.stored};
      if (spec.name.ends_with("bias")) drawn = {.name = spec.name, .shape = spec.shape};  // zeros would hide where they are added
      initial_values(drawn, 0.3, 9, 0, shard().master(spec.name));
    }
    shard().refresh_copies(context_);
  }
  void take_parameters(const Layers& whole) {
    for (const ParameterSpec& spec : specs_) {
      const auto own = shard().master(spec.name);
      std::ranges::copy(part_of(spec, whole.shard().master(spec.name)), own.begin());
    }
    shard().refresh_copies(context_);
  }
  /// The elements of a whole tensor that the rank has.
  template <class T>
  [[nodiscard]] std::span<T> part_of(const ParameterSpec& spec, std::span<T> whole) const {
    const auto elements = static_cast<std::size_t>(spec.shape.elements());
    if (!spec.experts.present()) return whole;
    return whole.subspan(elements / static_cast<std::size_t>(spec.shape[0]) * static_cast<std::size_t>(spec.experts.first), elements);
  }

  /// Fills the microbatch and what the neighbours would send. With `alike` all tokens are nearly the same and choose the same experts.
  void fill(int microbatch, DType compute, bool alike) {
    rows_of(random_ids(kGroupTokens * 8, 61, 5), kGroupRows, kGroupSequence)(microbatch, rank_->batch(0));
    const auto draw = [&](std::size_t buffer, std::uint32_t seed, bool common) {
      const auto noise = random_ids(kGroupTokens * kGroupWidth, 2001, seed), shared = random_ids(kGroupWidth, 2001, 77);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        const float own = static_cast<float>(noise[i] - 1000) / 1000.0F;
        const float value = common ? 3.0F * static_cast<float>(shared[i % kGroupWidth] - 1000) / 1000.0F + 0.001F * own : own;
        if (compute == DType::f32)
          reinterpret_cast<float*>(buffers_[buffer].data())[i] = value;
        else
          reinterpret_cast<kernels::BFloat16*>(buffers_[buffer].data())[i] = kernels::to_bfloat16(value);
      }
    };
    draw(0, 100 + static_cast<std::uint32_t>(microbatch), alike);
    draw(2, 200 + static_cast<std::uint32_t>(microbatch), false);
  }

  [[nodiscard]] runtime::ExecutionSlots slots(int set) const {
    runtime::ExecutionSlots slots;
    slots.boundary_in = const_cast<std::byte*>(buffers_[0].data());
    slots.boundary_out = const_cast<std::byte*>(buffers_[1].data());
    slots.gradient_in = const_cast<std::byte*>(buffers_[2].data());
    slots.gradient_out = const_cast<std::byte*>(buffers_[3].data());
    slots.accumulators = set;
    return slots;
  }
  void run(Pass pass, int set) { stage().run(pass, context_, slots(set)); }
  void run_segment(Pass pass, std::size_t segment, runtime::ExchangePort* port) {
    stage().run_segment(pass, segment, context_, slots(0), nullptr, port);
  }

  [[nodiscard]] std::vector<std::byte> output(DType compute) const {
    const auto bytes = buffers_[1].bytes().first(kGroupTokens * kGroupWidth * kernels::size_of(compute));
    return {bytes.begin(), bytes.end()};
  }
  /// What the microbatch has left: the output, the gradient of the input, and the loss terms.
  [[nodiscard]] std::vector<std::byte> results(DType compute) const {
    std::vector<std::byte> all;
    for (const std::size_t buffer : {1, 3}) {
      const auto bytes = buffers_[buffer].bytes().first(kGroupTokens * kGroupWidth * kernels::size_of(compute));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    for (std::size_t term = 0; term < stage().losses().size(); ++term) {
      const double sum = stage().loss_sum(term, 0);
      const auto bytes = std::as_bytes(std::span(&sum, 1));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  [[nodiscard]] std::span<const float> sums(const std::string& name, int set) const {
    const kernels::Tensor tensor = shard().accumulator(shard().layout().at(name), 0, set);
    return {tensor.as<float>(), static_cast<std::size_t>(tensor.elements())};
  }

  [[nodiscard]] runtime::Stage& stage() const { return *rank_->stages().front(); }
  [[nodiscard]] const runtime::StageShard& shard() const { return stage().shard(); }
  [[nodiscard]] const std::vector<ParameterSpec>& specs() const { return specs_; }

 private:
  ModelConfig config_;
  runtime::LossWeights losses_;
  StageLayout layout_;
  kernels::ThreadTeam team_;
  kernels::ExecutionContext context_;
  std::vector<ParameterSpec> specs_;
  std::unique_ptr<runtime::RankCompute> rank_;
  std::array<kernels::Buffer, 4> buffers_;  // boundary in and out, gradient in and out
};

std::vector<Pass> backward_passes(BackwardMode mode) {
  if (mode == BackwardMode::fused) return {Pass::backward};
  return {Pass::input_gradient, Pass::weight_gradient};
}

void expect_bits_of_one_rank(const ModelConfig& config, const Way& way, int members, bool alike, double capacity = 0) {
  Layers one(config, way, {}, 1 + members);
  one.initialise();
  std::vector<std::unique_ptr<Layers>> group;
  for (int member = 0; member < members; ++member) {
    group.push_back(std::make_unique<Layers>(config, way, runtime::ExpertGroup{members, member, capacity}, 1));
    group.back()->take_parameters(one);
  }
  Lockstep lockstep(static_cast<std::size_t>(members));
  const auto run = [&](Pass pass) {
    lockstep.run(group[0]->stage().segments(pass), [&](std::size_t member, std::size_t segment, runtime::ExchangePort* port) {
      group[member]->run_segment(pass, segment, port);
    });
  };
  for (int round = 0; round < 2; ++round) {
    for (int member = 0; member < members; ++member)
      group[static_cast<std::size_t>(member)]->fill(round * members + member, way.compute, alike);
    run(Pass::forward);
    for (const Pass pass : backward_passes(way.mode)) run(pass);
    for (int member = 0; member < members; ++member) {
      one.fill(round * members + member, way.compute, alike);
      one.run(Pass::forward, 0);
      // All microbatches in set 0, and those of each member in a set of their own, for weights that every member has.
      for (const int set : {0, 1 + member})
        for (const Pass pass : backward_passes(way.mode)) one.run(pass, set);
      ASSERT_EQ(group[static_cast<std::size_t>(member)]->results(way.compute), one.results(way.compute))
          << "microbatch " << round * members + member;
    }
  }
  run(Pass::evaluate);
  for (int member = 0; member < members; ++member) {
    one.fill(members + member, way.compute, alike);
    one.run(Pass::evaluate, 0);
    ASSERT_EQ(group[static_cast<std::size_t>(member)]->output(way.compute), one.output(way.compute)) << "evaluation by member " << member;
  }
  for (int member = 0; member < members; ++member) {
    const Layers& own = *group[static_cast<std::size_t>(member)];
    for (const ParameterSpec& spec : own.specs()) {
      const auto expected = own.part_of(spec, one.sums(spec.name, spec.experts.present() ? 0 : 1 + member)), found = own.sums(spec.name, 0);
      ASSERT_EQ(found.size(), expected.size()) << spec.name;
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), expected.size_bytes()), 0) << spec.name << " of member " << member;
    }
  }
  ASSERT_GT(lockstep.exchanged_rows, 0);
  ASSERT_EQ(lockstep.unused > 0, capacity > 0);
  if (alike && members == 4) {
    ASSERT_EQ(lockstep.fewest_received, 0);
  }
}

class ExpertGroups : public ::testing::TestWithParam<const char*> {};

void expect_bits_of_one_rank_in_all_ways(const char* name, double capacity) {
  const ModelConfig config = group_model(name);
  const Way ways[] = {{DType::f32, BackwardMode::fused, "none"},  {DType::f32, BackwardMode::split, "full"},
                      {DType::bf16, BackwardMode::fused, "full"}, {DType::bf16, BackwardMode::split, "none"},
                      {DType::f32, BackwardMode::fused, "full"},  {DType::f32, BackwardMode::split, "none"},
                      {DType::bf16, BackwardMode::fused, "none"}, {DType::bf16, BackwardMode::split, "full"}};
  for (std::size_t i = 0; i < std::size(ways); ++i) {
    // Every way with both kinds of tokens, and both sizes of groups with every kind of arithmetic, backward and policy.
    const int members = i < 4 ? 2 : 4;
    for (const bool alike : {false, true}) {
      if (capacity > 0 && alike != (i % 2 == 0)) continue;
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(members) + " members, " + std::string(kernels::to_string(ways[i].compute)) +
                   (ways[i].mode == BackwardMode::fused ? ", fused, " : ", split, ") + ways[i].rematerialize +
                   (alike ? ", tokens alike" : ""));
      expect_bits_of_one_rank(config, ways[i], members, alike, capacity);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(ExpertGroups, HaveTheBitsOfOneRank) { expect_bits_of_one_rank_in_all_ways(GetParam(), 0); }

TEST_P(ExpertGroups, HaveTheBitsOfOneRankInRounds) { expect_bits_of_one_rank_in_all_ways(GetParam(), 0.25); }

TEST_P(ExpertGroups, MembersHavePartsOfTheExperts) {
  const ModelConfig config = group_model(GetParam());
  const StageLayout layout{.layer_count = 2};
  const auto whole = parameters(config, layout);
  int parts = 0;
  for (int member = 0; member < 2; ++member) {
    const auto own = parameters(config, layout, {}, {2, member});
    ASSERT_EQ(own.size(), whole.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      ParameterSpec expected = whole[i];
      if (expected.name.find("experts.") != std::string::npos && !expected.experts.present()) {
        EXPECT_NE(expected.name.find("shared"), std::string::npos) << expected.name;
      }
      if (expected.experts.present()) {
        EXPECT_EQ(expected.experts, (runtime::ExpertSlice{0, config.experts}));
        expected.shape.dimension(0) = config.experts / 2;
        expected.experts.first = member * config.experts / 2;
        ++parts;
      }
      EXPECT_EQ(own[i], expected) << own[i].name;
    }
  }
  EXPECT_GT(parts, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertGroups,
                         ::testing::Values("mixtral", "qwen3_moe", "qwen3_next", "gpt_oss", "deepseek_v3", "llama4", "maxtext mixtral",
                                           "maxtext gpt_oss", "maxtext deepseek", "maxtext llama4"));

TEST(ExpertGroup, OneRankExchangesNothing) {
  const auto program = build_stage(group_model("deepseek_v3"), {.layer_count = 2}, {.rows = kGroupRows, .sequence = kGroupSequence});
  EXPECT_TRUE(program.exchanges.empty());
  EXPECT_TRUE(program.counts.empty());
}

// The expert of every token is computed while rows are on their way.
TEST(ExpertGroup, TheSharedExpertStandsBetweenPostAndAwait) {
  for (const char* name : {"deepseek_v3", "maxtext deepseek"}) {
    const auto program =
        build_stage(group_model(name), {.layer_count = 1}, {.rows = kGroupRows, .sequence = kGroupSequence, .experts = {2, 1}});
    const auto place = [&](const std::string& end) {
      const auto named = [&](const runtime::Operation& operation) { return operation.name.ends_with(end); };
      return std::ranges::find_if(program.operations, named) - program.operations.begin();
    };
    const auto post = place("dispatch.post"), await = place("dispatch.await");
    const auto shared =
        std::ranges::count_if(program.operations.begin() + post, program.operations.begin() + await,
                              [](const runtime::Operation& operation) { return operation.name.find("shared") != std::string::npos; });
    EXPECT_GE(shared, 4) << name;
    ASSERT_EQ(program.exchanges.size(), 3U) << name;
    // Each of 2 members may get 3 rows for each of 14 tokens of both.
    EXPECT_EQ(program.value(program.exchanges[1].receive).type.shape[0], 2 * kGroupTokens * 3) << name;
  }
}

// Rounds need the memory of the room that they are made for, whatever their number; what all rows would need is kept nowhere.
TEST(ExpertGroup, RoundsNeedTheMemoryOfTheirRoom) {
  const ModelConfig config = group_model("qwen3_moe");
  const auto nowhere = [](const runtime::Value&) { return runtime::Place{}; };
  for (const char* policy : {"none", "full"})
    for (const BackwardMode mode : {BackwardMode::fused, BackwardMode::split}) {
      std::vector<std::size_t> bytes;
      std::size_t segments = 0;
      for (const double capacity : {0.0, 1.0, 0.5}) {
        const StageOptions options{.rows = 16, .sequence = 256, .experts = {8, 0, capacity}};
        const auto set = runtime::differentiate(build_stage(config, {.layer_count = 2}, options),
                                                runtime::RematerializationPolicy::parse(policy, known_labels(config)));
        const auto plan = runtime::plan_memory(set, mode, {nowhere, nowhere}, kernels::Processor(1));
        bytes.push_back(0);
        for (const auto region :
             {runtime::Region::stash_input, runtime::Region::stash_weight, runtime::Region::handoff, runtime::Region::workspace})
          bytes.back() += plan.region_bytes[static_cast<std::size_t>(region)];
        EXPECT_GT(set.segments(runtime::ProgramKind::forward).size(), segments) << capacity;
        segments = set.segments(runtime::ProgramKind::forward).size();
      }
      EXPECT_LT(bytes[1], bytes[0] * 3 / 4) << policy;
      EXPECT_LT(bytes[2], bytes[1]) << policy;
    }
}

TEST(ExpertGroup, GroupsThatCannotShareTheExpertsAreRefused) {
  const auto refused = [](const ModelConfig& config, int members, const std::vector<std::string>& words) {
    tests::expect_error([&] { (void)build_stage(config, {.layer_count = 1}, {.experts = {members, 0}}); }, ExitCode::config, words);
  };
  ModelConfig config = group_model("deepseek_v3");
  config.experts = 12, config.routing_groups = 1, config.kept_routing_groups = 1;
  refused(config, 5, {"5 ranks share 12 experts", "divides 12; nearest: 4 and 6"});
  refused(config, 24, {"nearest: 12"});
  config.hidden_act = kernels::Activation::prelu;
  refused(config, 2, {"2 ranks share experts whose activation prelu has learned numbers"});
}

}  // namespace
}  // namespace millrace::layers::testing
