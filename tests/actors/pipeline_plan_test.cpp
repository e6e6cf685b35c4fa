#include "actors/setup/pipeline_plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "actors/rank/rank_blueprint.hpp"
#include "runtime/engine/exchange_costs.hpp"
#include "runtime/schedule/replicate.hpp"
#include "runtime/schedule/simulator/simulate.hpp"
#include "runtime/schedule/table.hpp"
#include "tests/layers/streams_family.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::actors {
namespace {

using tests::expect_error;

PlanRequest request(const std::string& schedule, int ranks, int microbatches, bool tied) {
  PlanRequest made;
  made.model.vocab_size = 257;
  made.model.hidden_size = 32;
  made.model.intermediate_size = 80;
  made.model.layers = 4;
  made.model.heads = 4;
  made.model.kv_heads = 2;
  made.model.head_dim = 8;
  made.model.tie_word_embeddings = tied;
  made.train.batch = 1;
  made.train.sequence = 8;
  made.train.microbatches = microbatches;
  made.pipeline.ranks = ranks;
  made.pipeline.schedule = schedule;
  return made;
}

constexpr std::size_t table_bytes = std::size_t{257} * 32 * 4;

/// "0 -> 3: 0" for the sum of use 0 from rank 0 to rank 3.
std::vector<std::string> texts(const std::vector<SumMessage>& messages) {
  std::vector<std::string> list;
  for (const SumMessage& message : messages) {
    std::string text = std::to_string(message.from.value) + " -> " + std::to_string(message.to.value) + ":";
    for (const SumPart& part : message.parts) text += " " + std::to_string(part.use);
    list.push_back(text);
  }
  return list;
}

TEST(PipelinePlan, HasAScheduleForEverySizeOfAGrowingBatch) {
  auto growing = request("1f1b", 4, 8, false);
  growing.train.ramp_microbatches = 2;
  growing.train.ramp_increment = 3;
  growing.train.ramp_rows = 20;
  const auto plan = make_plan(growing);
  ASSERT_EQ(plan.smaller_schedules.size(), 2U);
  EXPECT_EQ(plan.schedule_of(2).microbatches, 2);
  EXPECT_EQ(plan.schedule_of(5).microbatches, 5);
  EXPECT_EQ(plan.schedule_of(8).microbatches, 8);
  expect_error([&] { (void)plan.schedule_of(3); }, ExitCode::internal, {"no step of 3"});
  for (const std::int64_t microbatches : {2, 5, 8}) {
    const auto ledger = runtime::make_ledger(plan.schedule_of(microbatches));
    for (std::size_t i = 0; i < ledger.depths.size(); ++i) EXPECT_GE(plan.ledger.depths.at(i), ledger.depths[i]);
    for (std::size_t i = 0; i < ledger.stages.size(); ++i) EXPECT_GE(plan.ledger.stages.at(i).stash_input, ledger.stages[i].stash_input);
  }
  EXPECT_NE(plan.text(), make_plan(request("1f1b", 4, 8, false)).text());
  growing.train.accumulators = 2;
  expect_error([&] { (void)make_plan(growing); }, ExitCode::config, {"a step of 5 microbatches", "train.accumulators = 2"});
}

TEST(PipelinePlan, RefusesRecipesThatDoNotFitTheModel) {
  auto clipped = request("1f1b", 2, 4, false);
  clipped.train.qk_clip = 100;
  expect_error([&] { (void)make_plan(clipped); }, ExitCode::config, {"train.qk_clip = 100", "no latent attention"});
  auto accumulated = request("1f1b", 2, 4, false);
  accumulated.train.accumulation_steps = 2;
  expect_error([&] { (void)make_plan(accumulated); }, ExitCode::config, {"train.accumulation_steps = 2", "train.numerics = hf"});
  accumulated.train.numerics = "maxtext";
  accumulated.train.accumulation_steps = 3;
  expect_error([&] { (void)make_plan(accumulated); }, ExitCode::config, {"does not divide train.microbatches = 4"});
  auto frozen = request("1f1b", 2, 4, false);
  frozen.train.trainable = {"no_such_part"};
  expect_error([&] { (void)make_plan(frozen); }, ExitCode::config,
               {"train.trainable", "no_such_part", "finds no parameter", "with / for their dots, such as model/embed_tokens/weight"});
  auto grouped = request("1f1b", 2, 4, false);
  grouped.train.groups = {"norm", "input_layernorm"};
  expect_error([&] { (void)make_plan(grouped); }, ExitCode::config,
               {"train.groups has \"input_layernorm\"", "finds no parameter that an earlier group does not have",
                "such as model/embed_tokens/weight"});
}

TEST(PipelinePlan, TiedTableIsExchangedBetweenTwoRanks) {
  const auto plan = make_plan(request("1f1b", 4, 4, true));
  EXPECT_EQ(texts(plan.sums), (std::vector<std::string>{"0 -> 3: 0", "3 -> 0: 1"}));
  EXPECT_EQ(plan.sums[0].bytes(), table_bytes);
  EXPECT_EQ(plan.channels().size(), plan.edges.size() + 2);
  EXPECT_TRUE(plan.held_by_several(plan.parameters[0].name));
  EXPECT_FALSE(plan.held_by_several(plan.parameters[1].name));
  EXPECT_TRUE(make_plan(request("1f1b", 4, 4, false)).sums.empty());
  EXPECT_TRUE(make_plan(request("1f1b", 1, 4, true)).sums.empty());
}

/// Every rank that uses the table gets the uses that it does not have; two that share a rank travel in one message.
TEST(PipelinePlan, ModulesUseTheTableOfTheEmbedding) {
  const auto plan = [](const char* schedule, int ranks, bool tied, const char* layout, std::int64_t chunks = 1) {
    auto made = request(schedule, ranks, 8, tied);
    made.model.mtp_layers = 2;
    made.pipeline.layout = layout;
    made.pipeline.chunks = chunks;
    return make_plan(made);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts(plan("1f1b", 4, false, "E t*4 | M | M | H").sums),
            (Texts{"0 -> 1: 0", "0 -> 2: 0", "1 -> 0: 2", "1 -> 2: 2", "2 -> 0: 3", "2 -> 1: 3"}));
  EXPECT_EQ(texts(plan("1f1b", 2, true, "E t*4 | M*2 H").sums), (Texts{"0 -> 1: 0", "1 -> 0: 1 2 3"}));
  EXPECT_EQ(texts(plan("zb-v", 2, false, "E t*2 | t | t M | M H", 2).sums), (Texts{"0 -> 1: 0 3", "1 -> 0: 2"}));
  EXPECT_TRUE(plan("1f1b", 1, true, "E t*4 M*2 H").sums.empty());
  // With replicas, first all sums of both halves of the microbatches, use by use.
  const auto mirrored = plan("dualpipe", 4, true, "E t*4 | M | M | H");
  EXPECT_EQ(std::ranges::count(mirrored.sums, SumRound::replicas, &SumMessage::round), 4);
  Texts uses;
  for (const SumMessage& message : mirrored.sums)
    if (message.round == SumRound::uses) uses.push_back(texts({message}).front());
  EXPECT_EQ(uses, (Texts{"0 -> 1: 0", "0 -> 2: 0", "1 -> 0: 2", "1 -> 3: 2", "2 -> 0: 3", "2 -> 3: 3", "3 -> 1: 1", "3 -> 2: 1"}));
}

TEST(PipelinePlan, AnEdgeHasTheBytesOfItsPorts) {
  const auto plain = make_plan(request("1f1b", 4, 4, false));
  for (const auto& edge : plain.edges) EXPECT_EQ(plain.boundary_bytes(edge.id), std::size_t{8} * 32 * 4);

  layers::testing::add_to_families<layers::testing::StreamsFamily>();
  auto several = request("dualpipe", 2, 4, false);
  several.model.family = "streams";
  several.pipeline.layout = "E t*2 | t*2 H";
  const auto two = make_plan(several);
  several.pipeline = {.ranks = 3, .schedule = "zb-h1", .layout = "E t*2 | t | t H"};
  for (const PipelinePlan& plan : {two, make_plan(several)}) {
    const auto channels = plan.channels();
    for (const auto& edge : plan.edges) {
      const bool activation = edge.kind == runtime::BoundaryKind::activation;
      const auto from = plan.programs(edge.producer), to = plan.programs(edge.consumer);
      const auto sent = from.types(activation ? from.outputs : from.inputs), received = to.types(activation ? to.inputs : to.outputs);
      EXPECT_EQ(sent, received);
      EXPECT_EQ(plan.boundary_bytes(edge.id), (activation ? runtime::activation_slot(sent) : runtime::gradient_slot(sent)).bytes);
      EXPECT_EQ(channels.at(edge.id.index()).bytes, plan.boundary_bytes(edge.id));
    }
  }
  // classes i32 [8], padded to 128 bytes, hidden and early f32 [8, 32], side f32 [8, 16]; before layer 3 without early.
  const auto plan = make_plan(several);
  const auto bytes = [&](int stage, runtime::BoundaryKind kind) {
    return plan.boundary_bytes(*runtime::edge_into(plan.schedule.placement, runtime::StageId(stage), kind));
  };
  EXPECT_EQ(bytes(1, runtime::BoundaryKind::activation), 128U + 2 * 1024 + 512);
  EXPECT_EQ(bytes(0, runtime::BoundaryKind::gradient), 2U * 1024 + 512);
  EXPECT_EQ(bytes(2, runtime::BoundaryKind::activation), 128U + 1024 + 512);
  EXPECT_EQ(bytes(1, runtime::BoundaryKind::gradient), 1024U + 512);
}

TEST(PipelinePlan, EachStageMayHaveItsPolicyOfRematerialization) {
  auto mixed = request("1f1b", 4, 4, false);
  const auto stash = [](const PipelinePlan& plan, int rank) {
    const auto memory = RankBlueprint(plan, runtime::RankId(rank), {}).build(true);
    return memory->memory_plan().bytes(runtime::MemoryKind::stash_input) + memory->memory_plan().bytes(runtime::MemoryKind::stash_weight);
  };
  const auto plain = make_plan(mixed);
  mixed.rematerialize.stages = {"none", "full", "query_proj+mlpwo", "none"};
  const auto plan = make_plan(mixed);
  EXPECT_EQ(stash(plan, 0), stash(plain, 0));
  EXPECT_EQ(stash(plan, 3), stash(plain, 3));
  EXPECT_LT(stash(plan, 1), stash(plan, 2)) << "one microbatch more, but nothing of its layer";
  EXPECT_LT(stash(plan, 2), stash(plain, 2));
  mixed.rematerialize.stages.pop_back();
  expect_error([&] { static_cast<void>(make_plan(mixed)); }, ExitCode::config, {"rematerialize.stages has 3 policies", "4 stages"});
  mixed.rematerialize.stages = {"none", "ful", "none", "none"};
  expect_error([&] { static_cast<void>(make_plan(mixed)); }, ExitCode::config, {"ful", "full"});
}

TEST(PipelinePlan, ReplicasShareEverythingWithTheirMirror) {
  for (const bool tied : {false, true}) {
    const auto plan = make_plan(request("dualpipe", 4, 8, tied));
    EXPECT_EQ(plan.stages(), 8);
    EXPECT_EQ(plan.layout_text(), "E t | t | t | t H");
    for (int stage = 0; stage < 8; ++stage) {
      const runtime::StageId id(stage);
      EXPECT_EQ(plan.is_first(id), stage % 4 == 0);
      EXPECT_EQ(plan.is_last(id), stage % 4 == 3);
      EXPECT_EQ(plan.layout.at(id.index()), plan.layout.at(static_cast<std::size_t>(stage % 4)));
    }
    EXPECT_EQ(plan.parts(), 2);
    EXPECT_EQ(plan.accumulators, 1);
    EXPECT_EQ(plan.head_ranks(), (std::vector<int>{3, 0}));
    ASSERT_EQ(plan.sums.size(), 4U);
    for (int rank = 0; rank < 4; ++rank) {
      // A message of all sums goes each way, both ranks have one set of accumulators, and the plan includes the rings for their sums.
      const auto to = std::ranges::find(plan.sums, runtime::RankId(rank), &SumMessage::to);
      EXPECT_EQ(to->from, runtime::RankId(3 - rank));
      const auto compute = RankBlueprint(plan, runtime::RankId(rank), {}).build(true);
      std::size_t sums = 0;
      for (const auto* stage : compute->stages()) sums += stage->shard_layout().accumulator_bytes;
      EXPECT_EQ(sums, to->bytes());
      EXPECT_NE(compute->memory_plan().find_ring(to->channel), nullptr);
    }
  }
}

TEST(PipelinePlan, RefusesWhatReplicasCannotShare) {
  auto three = request("dualpipe", 2, 6, false);
  three.train.accumulators = 3;
  expect_error([&] { static_cast<void>(make_plan(three)); }, ExitCode::config,
               {"train.accumulators = 3, expected a multiple of the 2 directions", "train.accumulators = 4 for a new run"});
  auto four = request("dualpipe", 2, 4, false);
  four.train.accumulators = 4;
  EXPECT_EQ(make_plan(four).parts(), 4);
  EXPECT_EQ(make_plan(four).accumulators, 2);
  auto two = request("dualpipe", 2, 4, false);
  two.train.accumulators = 2;
  EXPECT_EQ(make_plan(two).parts(), 2);

  const tests::TemporaryFolder folder;
  const auto table = [&](int ranks, int microbatches, const std::string& text) {
    auto own = request("1f1b", ranks, microbatches, false);
    own.pipeline.plan = folder.write("table.csv", "#placement mirror\n" + text);
    return own;
  };
  expect_error([&] { static_cast<void>(make_plan(table(1, 2, "0F0,0B0,1F1,1B1\n"))); }, ExitCode::config, {"even number of ranks"});
  expect_error([&] { static_cast<void>(make_plan(table(2, 3, "0F0,3F1,3B1,0F2,0B0,0B2\n2F1,1F0,1B0,1F2,1B2,2B1\n"))); }, ExitCode::config,
               {"train.microbatches = 3", "a multiple of the 2 directions"});
}

PlanRequest with_copies(PlanRequest request, int copies, int accumulators) {
  request.mesh.data = copies;
  request.train.accumulators = accumulators;
  return request;
}

PlanRequest with_experts(PlanRequest request, int experts) {
  request.model.family = "mixtral";
  request.model.experts = experts;
  request.model.experts_per_token = 2;
  return request;
}

TEST(Mesh, CopiesHaveRanksOfTheirOwnAndShareTheParts) {
  const auto plan = make_plan(with_copies(request("1f1b", 2, 8, false), 4, 8));
  EXPECT_EQ(plan.ranks(), 8);
  EXPECT_EQ(plan.replicas(), 4);
  EXPECT_EQ(plan.schedule.microbatches, 8);
  EXPECT_EQ(plan.parts(), 8);
  EXPECT_EQ(plan.accumulators, 2);
  EXPECT_EQ(plan.layout_text(), "E t*2 | t*2 H");
  EXPECT_EQ(plan.head_ranks(), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(plan.accumulator_set(5), 1);
  EXPECT_EQ(plan.rank_text(runtime::RankId(5)), "rank 5 (copy 2, position 1)");
  EXPECT_EQ(make_plan(request("1f1b", 2, 8, false)).rank_text(runtime::RankId(1)), "rank 1");
  // Every rank sends one sum of each of its weights to the three others of its position.
  ASSERT_EQ(plan.sums.size(), 2U * 4 * 3);
  std::set<int> channels;
  for (const SumMessage& message : plan.sums) {
    EXPECT_EQ(message.round, SumRound::replicas);
    EXPECT_EQ(message.from.value % 2, message.to.value % 2);
    for (const SumPart& part : message.parts) {
      EXPECT_EQ(part.shared, (SharedParts{8, 4, message.from.value / 2}));
      EXPECT_EQ(part.sums, std::vector<int>{message.from.value / 2});
    }
    channels.insert(message.channel);
  }
  EXPECT_EQ(channels.size(), plan.sums.size());
  EXPECT_EQ(*channels.begin(), static_cast<int>(plan.edges.size()));
  EXPECT_NE(plan.text(), make_plan(with_copies(request("1f1b", 2, 8, false), 2, 8)).text());
}

TEST(Mesh, EveryCopyAddsTheUsesOfATiedTable) {
  const auto plan = make_plan(with_copies(request("1f1b", 2, 4, true), 2, 2));
  const auto list = texts(plan.sums);
  const std::vector<std::string> uses{"0 -> 1: 0", "1 -> 0: 1", "2 -> 3: 0", "3 -> 2: 1"};
  EXPECT_EQ(std::vector<std::string>(list.end() - 4, list.end()), uses);
}

PlanRequest divided(PlanRequest asked) {
  asked.mesh.shard = "optimizer";
  return asked;
}

TEST(Mesh, CopiesThatDivideTheUpdateSendNoWholeSums) {
  const auto plan = make_plan(divided(with_copies(request("1f1b", 2, 8, false), 4, 4)));
  EXPECT_TRUE(plan.divides_update());
  EXPECT_TRUE(plan.sums.empty());
  const ReplicaGroup group = plan.replica_group(runtime::StageId(3), false);  // of copy 1, position 1
  EXPECT_EQ(group.ranks, (std::vector<runtime::RankId>{runtime::RankId(1), runtime::RankId(3), runtime::RankId(5), runtime::RankId(7)}));
  EXPECT_EQ(group.copies, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(group.id, 1);
  EXPECT_NE(plan.text(), make_plan(with_copies(request("1f1b", 2, 8, false), 4, 4)).text()) << "processes compare it";
  EXPECT_FALSE(make_plan(divided(request("1f1b", 2, 8, false))).divides_update()) << "nobody to divide it with";
  EXPECT_EQ(plan.copies_text(), "4 copies (they divide the update) of ");
  expect_error([&] { (void)make_plan(divided(with_copies(request("1f1b", 1, 99, false), 3, 99))); }, ExitCode::config,
               {"3 replicas and train.accumulators = 99: each has 33 sums to send, expected 32 at most"});
}

// Members with the same number in both groups exchange the part of a tied table that they own. A table of one hash chunk has one owner.
TEST(Mesh, ATiedTableIsDividedAlikeWhereverItIs) {
  auto asked = divided(with_copies(request("1f1b", 2, 4, true), 2, 2));
  EXPECT_EQ(texts(make_plan(asked).sums), (std::vector<std::string>{"0 -> 1: 0", "1 -> 0: 1"}));
  asked.model.vocab_size = 3 << 15;  // 32 · 2^15 elements are a chunk
  const auto plan = make_plan(asked);
  EXPECT_EQ(texts(plan.sums), (std::vector<std::string>{"0 -> 1: 0", "1 -> 0: 1", "2 -> 3: 0", "3 -> 2: 1"}));
  const std::int64_t chunk = 1 << 20;
  EXPECT_EQ(plan.sums[0].parts[0].elements, plan.sums[1].parts[0].elements);
  EXPECT_EQ(plan.sums[0].parts[0].elements.count + plan.sums[2].parts[0].elements.count, 3 * chunk);
  for (const SumMessage& message : plan.sums) EXPECT_EQ(message.bytes(), static_cast<std::size_t>(message.parts[0].elements.count) * 4);
}

TEST(Mesh, TheDirectionsOfAMirrorDivideTheUpdateToo) {
  auto asked = divided(request("dualpipe", 4, 8, true));
  asked.model.mtp_layers = 2;
  asked.pipeline.layout = "E t*4 | M | M | H";
  const auto plan = make_plan(asked);
  EXPECT_TRUE(plan.divides_update());
  // Stage 0 is on rank 0 and, the other way, on rank 3; so is the head.
  const ReplicaGroup embedding = plan.replica_group(runtime::StageId(0), false), head = plan.replica_group(runtime::StageId(3), false);
  EXPECT_EQ(embedding.ranks, (std::vector<runtime::RankId>{runtime::RankId(0), runtime::RankId(3)}));
  EXPECT_EQ(embedding.copies, (std::vector<int>{0, 1}));
  EXPECT_EQ(head.id, embedding.id);
  EXPECT_EQ(head.copies, (std::vector<int>{1, 0})) << "the head of the first direction is on rank 3";
  // The first members of both groups own all of the table, which is one chunk.
  EXPECT_EQ(texts(plan.sums), (std::vector<std::string>{"0 -> 1: 0 1", "1 -> 0: 2 3"}));
  // All members take the stages in the same order, and the head before the embedding, whose gradients are complete last.
  const auto first = stage_replicas(plan, runtime::RankId(0)), last = stage_replicas(plan, runtime::RankId(3));
  ASSERT_EQ(first.size(), last.size());
  EXPECT_EQ(first.front().copies, (std::vector<int>{1, 0}));
  EXPECT_EQ(first.back().copies, (std::vector<int>{0, 1}));
  const auto& placement = plan.schedule.placement;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(placement.model_stage(first[i].stage), placement.model_stage(last[i].stage));
    EXPECT_EQ(first[i].copies, last[i].copies);
  }
}

TEST(Mesh, OwnersOfTheSameExpertsDivideTheirUpdate) {
  auto asked = divided(with_experts(with_copies(request("1f1b", 1, 8, false), 4, 4), 4));
  asked.mesh.expert = 2;
  asked.train.expert_accumulators = 2;
  const auto plan = make_plan(asked);
  const ReplicaGroup dense = plan.replica_group(runtime::StageId(2), false), experts = plan.replica_group(runtime::StageId(2), true);
  EXPECT_EQ(dense.ranks.size(), 4U);
  // Replica c is member c / groups of group c mod groups, so those with the same experts are c and c + 1.
  EXPECT_EQ(experts.ranks, (std::vector<runtime::RankId>{runtime::RankId(2), runtime::RankId(3)}));
  EXPECT_EQ(experts.copies, (std::vector<int>{0, 1}));
  EXPECT_NE(experts.id, dense.id);
  std::set<int> ids;
  for (int stage = 0; stage < 4; ++stage) ids.insert(plan.replica_group(runtime::StageId(stage), true).id);
  EXPECT_EQ(ids.size(), 2U);
}

TEST(Mesh, CopiesThatAreNoPowerOfTwoSendSeveralSums) {
  const auto plan = make_plan(with_copies(request("1f1b", 1, 6, false), 3, 6));
  ASSERT_EQ(plan.sums.size(), 6U);
  for (const SumMessage& message : plan.sums)
    EXPECT_EQ(message.parts.front().sums, (std::vector<int>{message.from.value, message.from.value + 3}));
  std::size_t bytes = 0;
  for (const SumPart& part : plan.sums.front().parts) bytes += 2 * part.bytes;
  EXPECT_EQ(plan.sums.front().bytes(), bytes);
}

PlanRequest sharing_experts(const std::string& schedule, int ranks, int microbatches, const std::string& weave) {
  auto asked = with_experts(with_copies(request(schedule, ranks, microbatches, false), 2, 2), 4);
  asked.mesh.expert = 2;
  asked.train.expert_accumulators = 1;
  asked.pipeline.weave = weave;
  return asked;
}

TEST(Mesh, PricesTheExchangesOfAStage) {
  const auto plan = make_plan(sharing_experts("1f1b", 2, 8, "off"));
  const runtime::ProgramSet programs = plan.programs(runtime::StageId(0));
  constexpr double latency = 0.5, rate = 1000;
  const auto costs = runtime::exchange_costs(programs, {2, latency, rate});
  // Two layers; each exchanges counts, rows and results. Of the 8 · 2 rows of 32 floats a member sends half to the other.
  const double rows = latency + 8.0 * 2 * 32 * 4 / 2 / rate, counts = latency + 4.0 * 4 / 2 / rate;
  EXPECT_EQ(costs.of(runtime::ActionKind::forward).exchange, (std::vector<double>{counts, rows, rows, counts, rows, rows}));
  EXPECT_EQ(costs.of(runtime::ActionKind::backward).exchange.size(), 4U);
  for (const auto kind : runtime::all_action_kinds) {
    EXPECT_EQ(costs.of(kind).compute.size(), costs.shape.of(kind).size());
    double sum = 0;
    for (const double part : costs.of(kind).compute) sum += part;
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  // The owner's products are between a dispatch and a combine.
  const auto& forward = costs.of(runtime::ActionKind::forward).compute;
  EXPECT_GT(forward[2], forward[1]);
  EXPECT_EQ(runtime::exchange_costs(programs, {2, 0, 0}).of(runtime::ActionKind::forward).exchange, std::vector<double>(6, 0));
}

TEST(Mesh, RanksOfAWoven1f1bAreTwoPairsAheadOfEachOther) {
  const auto forwards_first = [](const PipelinePlan& plan) {
    std::vector<std::ptrdiff_t> counts;
    for (const auto& list : plan.schedule.ranks) {
      const auto first = std::ranges::find(list, runtime::ActionKind::backward, &runtime::Action::kind);
      counts.push_back(first - list.begin());
    }
    return counts;
  };
  using Counts = std::vector<std::ptrdiff_t>;
  EXPECT_EQ(forwards_first(make_plan(sharing_experts("1f1b", 3, 20, "off"))), (Counts{3, 2, 1, 3, 2, 1}));
  EXPECT_EQ(forwards_first(make_plan(sharing_experts("1f1b", 3, 20, "neighbours"))), (Counts{6, 4, 1, 6, 4, 1}));
  auto own = sharing_experts("1f1b", 3, 20, "neighbours");
  own.pipeline.warmup = 4;
  EXPECT_EQ(forwards_first(make_plan(own)), (Counts{5, 3, 1, 5, 3, 1}));
}

TEST(Mesh, WeavesWhereTheSimulatorExpectsAShorterStep) {
  std::set<std::string> chosen;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const int ranks : {1, 2, 4}) {
      const auto step = [](const PipelinePlan& plan) {
        std::vector<runtime::ProgramSet> programs;
        for (int stage = 0; stage < plan.schedule.placement.stages() / 2; ++stage)
          programs.push_back(plan.programs(runtime::StageId(stage)));
        return runtime::simulate(runtime::one_copy(plan.schedule), runtime::usual_costs(programs, 2)).makespan;
      };
      const auto plan = [&](const std::string& weave) { return make_plan(sharing_experts(schedule, ranks, 16, weave)); };
      const auto off = plan("off"), woven = plan("neighbours"), best = plan("auto");
      const bool gains = step(woven) < step(off);
      chosen.insert(gains ? "neighbours" : "off");
      EXPECT_EQ(best.schedule.ranks, (gains ? woven : off).schedule.ranks) << schedule << " on " << ranks;
      EXPECT_EQ(best.text(), (gains ? woven : off).text());
    }
  }
  EXPECT_EQ(chosen.size(), 2U) << "all of these choose " << *chosen.begin();
  EXPECT_EQ(make_plan(with_copies(request("1f1b", 2, 8, false), 2, 2)).text(), [] {
    auto asked = with_copies(request("1f1b", 2, 8, false), 2, 2);
    asked.pipeline.weave = "auto";
    return make_plan(asked).text();
  }());
}

TEST(Mesh, DealsExpertsToGroups) {
  auto asked = with_experts(with_copies(request("1f1b", 2, 8, false), 4, 4), 4);
  asked.mesh.expert = 2;
  asked.train.expert_accumulators = 2;
  const auto plan = make_plan(asked);
  EXPECT_EQ(plan.mesh.expert, 2);
  EXPECT_EQ(plan.expert_groups(), 2);
  EXPECT_EQ(plan.expert_accumulators, 1);
  // Copy d = 2 i + g is member i of group g: copies 1 and 3, of which rank 7 is in the second.
  const ExpertRanks group = plan.expert_group(runtime::RankId(7));
  EXPECT_EQ(group.group, (runtime::ExpertGroup{2, 1}));
  EXPECT_EQ(group.ranks, (std::vector<runtime::RankId>{runtime::RankId(3), runtime::RankId(7)}));
  EXPECT_EQ(plan.expert_group(runtime::RankId(0)).ranks, (std::vector<runtime::RankId>{runtime::RankId(0), runtime::RankId(4)}));
  // Sums of experts go to the copies that have the same ones alone, those of other weights to all.
  for (const SumMessage& message : plan.sums) {
    const int from = message.from.value / 2, to = message.to.value / 2;
    bool experts = false;
    for (const SumPart& part : message.parts) {
      const auto spec = std::ranges::find(plan.parameters, part.tensor, &layers::ParameterSpec::name);
      experts = experts || spec->experts.present();
      EXPECT_EQ(part.shared, spec->experts.present() ? (SharedParts{2, 2, from % 2}) : (SharedParts{4, 4, from})) << part.tensor;
    }
    EXPECT_EQ(experts, from / 2 == to / 2);
  }
  asked.mesh = {0, 4};
  asked.train.expert_accumulators = 1;
  EXPECT_EQ(make_plan(asked).mesh.data, 4) << "as many copies as share the experts";
  EXPECT_EQ(make_plan(asked).expert_group(runtime::RankId(5)).group, (runtime::ExpertGroup{4, 2}));
}

TEST(Mesh, RefusalsNameTheNearestLegalOne) {
  const auto refused = [](const PlanRequest& request, const std::vector<std::string>& parts) {
    expect_error([&] { static_cast<void>(make_plan(request)); }, ExitCode::config, parts);
  };
  refused(with_copies(request("1f1b", 2, 8, false), 2, 1),
          {"train.accumulators = 1, expected a multiple of the 2 copies; nearest legal: mesh.data = 1, or train.accumulators = 2"});
  refused(with_copies(request("1f1b", 2, 16, false), 8, 4), {"nearest legal: mesh.data = 4, or train.accumulators = 8"});
  refused(with_copies(request("dualpipe", 2, 16, false), 2, 2), {"a multiple of the 4 replicas of 2 copies", "mesh.data = 1"});
  refused(with_copies(request("1f1b", 2, 8, false), 3, 4), {"train.microbatches = 8, expected a multiple of the 3 copies"});
  auto experts = with_experts(with_copies(request("1f1b", 2, 8, false), 2, 2), 4);
  refused(experts, {"train.expert_accumulators = 1, expected a multiple of the 2 copies", "train.expert_accumulators = 2"});
  experts.mesh.expert = 3;
  refused(experts, {"mesh.expert = 3, expected a divisor of mesh.data = 2"});
  auto dense = with_copies(request("1f1b", 2, 8, false), 2, 2);
  dense.mesh.expert = 2;
  refused(dense, {"mesh.expert = 2, but the model has no experts, expected 1"});
}

TEST(PipelinePlan, RefusesATableOfForwardsAlone) {
  const tests::TemporaryFolder folder;
  auto own = request("1f1b", 1, 2, false);
  own.pipeline.plan = folder.write("table.csv", "0F0,0F1\n");
  expect_error([&] { static_cast<void>(make_plan(own)); }, ExitCode::config, {"table.csv", "without backwards"});
}

TEST(RankBlueprint, HoldsTokensOfBothDirections) {
  const auto plan = make_plan(request("dualpipe", 4, 12, false));
  const RankBlueprint rank(plan, runtime::RankId(0), {});
  // Rank 0 begins with 0, 2 and 4, before 1 arrives from the other end.
  EXPECT_GE(batches_in_flight(rank.training), 5);
  EXPECT_LE(batches_in_flight(rank.training), 8);
  EXPECT_EQ(batches_in_flight(RankBlueprint(make_plan(request("1f1b", 4, 12, false)), runtime::RankId(0), {}).training), 4);
}

// An evaluation goes through every chunk and, shared between them, through every replica.
TEST(RankBlueprint, ForwardsAloneRunEachStageOnce) {
  RankResources needs;
  needs.evaluation_microbatches = 3;
  const auto actions_of = [&](const PlanRequest& of, int rank) {
    const RankBlueprint blueprint(make_plan(of), runtime::RankId(rank), needs);
    std::map<int, int> stages;  // how many microbatches each has
    for (const auto& planned : blueprint.evaluation.entries) ++stages[planned.action.stage.value];
    return stages;
  };
  using Stages = std::map<int, int>;
  auto chunked = request("interleaved", 2, 4, false);
  chunked.pipeline.chunks = 2;
  EXPECT_EQ(actions_of(chunked, 0), (Stages{{0, 3}, {2, 3}}));
  EXPECT_EQ(actions_of(chunked, 1), (Stages{{1, 3}, {3, 3}}));
  EXPECT_EQ(actions_of(request("dualpipe", 4, 8, false), 1), (Stages{{1, 2}, {6, 1}}));
  auto copies = request("1f1b", 2, 4, false);
  copies.mesh.data = 4;
  copies.train.accumulators = 4;
  EXPECT_EQ(actions_of(copies, 1), (Stages{{1, 1}}));
  EXPECT_EQ(actions_of(copies, 5), (Stages{{5, 1}}));
  EXPECT_EQ(actions_of(copies, 7), Stages{}) << "the fourth copy has nothing to do";
  EXPECT_EQ(actions_of(request("1f1b", 4, 8, false), 3), (Stages{{3, 3}}));
}

TEST(RankBlueprint, HasNoRoomForTrainingWhereOnlyForwardsRun) {
  const auto plan = make_plan(request("1f1b", 2, 8, false));
  RankResources needs;
  needs.evaluation_microbatches = 3;
  const auto trains = RankBlueprint(plan, runtime::RankId(0), needs).build(true);
  needs.training = false;
  const auto runs = RankBlueprint(plan, runtime::RankId(0), needs).build(true);
  using enum runtime::MemoryKind;
  for (const auto kind : {state, accumulator, stash_input}) {
    EXPECT_GT(trains->memory_plan().bytes(kind), 0U) << to_string(kind);
    EXPECT_EQ(runs->memory_plan().bytes(kind), 0U) << to_string(kind);
  }
  EXPECT_EQ(runs->memory_plan().bytes(master), trains->memory_plan().bytes(master));
}

}  // namespace
}  // namespace millrace::actors
