#include "runtime/program/exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/device.hpp"
#include "runtime/passes/hide_exchanges.hpp"
#include "tests/runtime/program/exchange_net.hpp"
#include "tests/runtime/program/fixed_offsets.hpp"
#include "tests/runtime/program/lockstep.hpp"
#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

/// Exchanges in programs: their operations, segments, gradients and execution, and the weight gradients that are computed meanwhile.
namespace millrace::runtime::testing {
namespace {

using kernels::DType;
using Names = std::vector<std::string>;

ProgramSet set_of(int members, const std::string& policy = "none") {
  return differentiate(exchange_net({members, 0}), RematerializationPolicy::parse(policy, labels()));
}

Names names_of(const std::vector<Operation>& program) {
  Names names;
  for (const Operation& operation : program) names.push_back(operation.name);
  return names;
}

std::ptrdiff_t place_of(const ProgramSet& set, ProgramKind kind, const std::string& name) {
  const auto& program = set.program(kind);
  const auto found = std::ranges::find(program, name, &Operation::name);
  EXPECT_NE(found, program.end()) << "no operation " << name << " in " << to_string(kind);
  return found - program.begin();
}

/// For every segment: what it awaits, then what it posts.
std::vector<Names> exchanges_of(const ProgramSet& set, ProgramKind kind) {
  std::vector<Names> all;
  for (const Segment& segment : set.segments(kind)) {
    all.push_back({segment.awaits.valid() ? set.exchange(segment.awaits).name : ""});
    for (const ExchangeId posted : segment.posts) all.back().push_back(set.exchange(posted).name);
  }
  return all;
}

TEST(Exchanges, AnAwaitBeginsASegment) {
  const ProgramSet set = set_of(2);
  const std::vector<Names> forward{
      {"", "layers.0.counts"}, {"layers.0.counts", "layers.0.dispatch"}, {"layers.0.dispatch", "layers.0.combine"}, {"layers.0.combine"}};
  EXPECT_EQ(exchanges_of(set, ProgramKind::forward), forward);
  EXPECT_EQ(exchanges_of(set, ProgramKind::evaluate), forward);
  const std::vector<Names> gradient{{"", "layers.0.combine.dx"}, {"layers.0.combine.dx", "layers.0.dispatch.dx"}, {"layers.0.dispatch.dx"}};
  EXPECT_EQ(exchanges_of(set, ProgramKind::input_gradient), gradient);
  EXPECT_EQ(exchanges_of(set, ProgramKind::backward), gradient);
  EXPECT_EQ(exchanges_of(set, ProgramKind::weight_gradient), std::vector<Names>{{""}});
  for (const ProgramKind kind : all_program_kinds) {
    std::size_t begin = 0;
    for (const Segment& segment : set.segments(kind)) {
      EXPECT_EQ(segment.first, begin);
      begin = segment.end;
      if (segment.awaits.valid()) {
        EXPECT_EQ(awaited_by(set.program(kind)[segment.first]), segment.awaits);
      }
    }
    EXPECT_EQ(begin, set.program(kind).size());
  }
  for (const ProgramKind kind : all_program_kinds) EXPECT_EQ(set_of(1).segments(kind).size(), 1U);
}

TEST(Exchanges, TheGradientGoesBackByTheTablesOfTheForward) {
  const ProgramSet set = set_of(2);
  for (const char* name : {"layers.0.dispatch", "layers.0.combine"}) {
    const auto spec = std::ranges::find(set.exchanges, name, &ExchangeSpec::name);
    const auto back = std::ranges::find(set.exchanges, std::string(name) + ".dx", &ExchangeSpec::name);
    ASSERT_NE(back, set.exchanges.end());
    EXPECT_EQ(back->send_table, spec->receive_table);
    EXPECT_EQ(back->receive_table, spec->send_table);
    EXPECT_EQ(back->layer, 0);
    EXPECT_EQ(set.value(back->send).type, set.value(spec->receive).type);
    EXPECT_EQ(set.value(back->receive).type, set.value(spec->send).type);
    EXPECT_EQ(set.value(back->receive).name, std::string(name) + ".dx.await");
    EXPECT_EQ(set.value(back->receive).layer, 0);
    EXPECT_TRUE(set.value(spec->receive).type.shape.bounded() != set.value(back->receive).type.shape.bounded());
  }
  // What F computed beside an exchange is computed backward beside its gradient.
  const auto place = [&](const char* name) { return place_of(set, ProgramKind::input_gradient, name); };
  EXPECT_LT(place("layers.0.dispatch.dx.post"), place("layers.0.beside.dx"));
  EXPECT_LT(place("layers.0.beside.dx"), place("layers.0.dispatch.dx.await"));
  EXPECT_EQ(set.exchanges.size(), 5U);  // counts have no gradient
}

TEST(Exchanges, RecomputedRowsAreExchangedAgain) {
  const ProgramSet set = set_of(2, "full");
  const std::vector<Names> expected{{"", "layers.0.dispatch.recomputed"},
                                    {"layers.0.dispatch.recomputed", "layers.0.combine.recomputed"},
                                    {"layers.0.combine.recomputed", "layers.0.combine.dx"},
                                    {"layers.0.combine.dx", "layers.0.dispatch.dx"},
                                    {"layers.0.dispatch.dx"}};
  EXPECT_EQ(exchanges_of(set, ProgramKind::input_gradient), expected);
  EXPECT_EQ(exchanges_of(set, ProgramKind::backward), expected);
  const auto named = [&](const std::string& name) { return *std::ranges::find(set.exchanges, name, &ExchangeSpec::name); };
  const ExchangeSpec first = named("layers.0.dispatch"), again = named("layers.0.dispatch.recomputed");
  EXPECT_EQ(again.send_table, first.send_table);  // integers are kept
  EXPECT_EQ(again.receive_table, first.receive_table);
  EXPECT_NE(again.send, first.send);
  EXPECT_NE(again.receive, first.receive);
  EXPECT_EQ(set.value(again.receive).type, set.value(first.receive).type);
  for (const ProgramKind kind : all_program_kinds)
    for (const Operation& operation : set.program(kind)) {
      const ExchangeId id = posted_by(operation).valid() ? posted_by(operation) : awaited_by(operation);
      if (!id.valid()) continue;
      const ExchangeSpec& spec = set.exchange(id);
      EXPECT_EQ(operation.inputs.front(), spec.send) << operation.name;
      if (awaited_by(operation).valid()) {
        EXPECT_EQ(operation.outputs, std::vector{spec.receive}) << operation.name;
      }
    }
}

TEST(Exchanges, AKeptResultNeedsNoExchange) {
  const ProgramSet set = set_of(2, "mlpwi_0");
  const auto names = exchanges_of(set, ProgramKind::input_gradient);
  EXPECT_EQ(names[1], (Names{"layers.0.dispatch.recomputed", "layers.0.combine.recomputed"}));  // W reads the rows
  EXPECT_EQ(std::ranges::count(names_of(set.program(ProgramKind::input_gradient)), "layers.0.wide.recomputed"), 0);
}

// B: weight gradients that stand before a post are computed between it and its await.
TEST(HideExchanges, WeightGradientsMoveBehindAPost) {
  const ProgramSet set = set_of(2);
  const auto place = [&](const char* name) { return place_of(set, ProgramKind::backward, name); };
  for (const char* name : {"layers.0.back.dw", "layers.0.wide.dw", "layers.0.wide.db", "layers.0.beside.dw"}) {
    EXPECT_LT(place("layers.0.dispatch.dx.post"), place(name));
    EXPECT_LT(place(name), place("layers.0.dispatch.dx.await"));
  }
  // Nothing is lost, and each operation has its operands.
  const auto& program = set.program(ProgramKind::backward);
  std::vector<bool> written(set.values.size(), false), elsewhere(set.values.size(), true);
  for (const Operation& operation : program)
    for (const ValueId output : operation.outputs) elsewhere[static_cast<std::size_t>(output.index)] = false;
  for (const Operation& operation : program) {
    for (const ValueId input : operation.inputs)
      EXPECT_TRUE(written[static_cast<std::size_t>(input.index)] || elsewhere[static_cast<std::size_t>(input.index)]) << operation.name;
    for (const ValueId output : operation.outputs) written[static_cast<std::size_t>(output.index)] = true;
  }
  // One rank has nothing to hide.
  const ProgramSet alone = set_of(1);
  EXPECT_LT(place_of(alone, ProgramKind::backward, "layers.0.back.dw"), place_of(alone, ProgramKind::backward, "layers.0.wide.dx"));
}

/// What a fused operation adds to an accumulator before a post comes after what was added to it before.
TEST(HideExchanges, AdditionsToOneAccumulatorKeepTheirOrder) {
  ProgramSet set = set_of(2);
  auto& backward = set.programs[static_cast<std::size_t>(ProgramKind::backward)];
  const auto post = std::ranges::find_if(backward, [](const Operation& operation) { return posted_by(operation).valid(); });
  const auto weight = std::ranges::find(backward, "layers.0.beside.dw", &Operation::name);
  ASSERT_LT(post, weight);
  Operation addition = *weight, fused = *weight;
  addition.name = "first";
  fused.name = "second";
  fused.outputs.push_back(post->inputs.front());  // yields a gradient too
  const auto position = post - backward.begin();
  backward.insert(backward.begin() + position, {addition, fused});
  hide_exchanges(set);
  EXPECT_EQ(backward[static_cast<std::size_t>(position)].name, "first");
  EXPECT_EQ(backward[static_cast<std::size_t>(position) + 1].name, "second");
  // The other way round nothing stands against it.
  std::swap(backward[static_cast<std::size_t>(position)], backward[static_cast<std::size_t>(position) + 1]);
  hide_exchanges(set);
  EXPECT_EQ(backward[static_cast<std::size_t>(position)].name, "second");
  EXPECT_TRUE(posted_by(backward[static_cast<std::size_t>(position) + 1]).valid());
  EXPECT_EQ(backward[static_cast<std::size_t>(position) + 2].name, "first");
}

/// A rank with all experts and the members of a group with their parts of the same weights.
class Group {
 public:
  explicit Group(int members, Rig::Options options, DType compute = DType::f32, double capacity = 0)
      : members_(members), one(exchange_net({1, 0}, compute), SmallNet{}, options) {
    for (int member = 0; member < members; ++member) {
      rigs.push_back(std::make_unique<Rig>(exchange_net({members, member, capacity}, compute), SmallNet{}, options));
      for (const char* name : {"wide", "wide.bias", "back"}) {
        const auto whole = one.master(name), part = rigs.back()->master(name);
        std::ranges::copy(whole.subspan(part.size() * static_cast<std::size_t>(member), part.size()), part.begin());
      }
      rigs.back()->refresh();
    }
  }

  /// Microbatch m, all tokens of which are `token` if that is not negative.
  void fill(Rig& rig, int m, int token = -1) const {
    auto* tokens = reinterpret_cast<std::int32_t*>(rig.bindings[Region::batch] + batch_offset("tokens", 8));
    for (int t = 0; t < 8; ++t) tokens[t] = token >= 0 ? token : (t * (3 + m) + m) % 11;
  }
  void run(Lockstep& lockstep, ProgramKind kind) {
    lockstep.run(rigs[0]->set.segments(kind),
                 [&](std::size_t member, std::size_t segment, ExchangePort* port) { rigs[member]->run_segment(kind, segment, port); });
  }

  int members_;
  Rig one;
  std::vector<std::unique_ptr<Rig>> rigs;
};

void expect_bits_of_one_rank(int members, Rig::Options options, DType compute, int token, double capacity = 0) {
  SCOPED_TRACE(std::to_string(members) + " members, " + options.policy + (compute == DType::bf16 ? ", bf16" : ""));
  Group group(members, options, compute, capacity);
  Lockstep lockstep(static_cast<std::size_t>(members));
  for (int round = 0; round < 2; ++round) {
    for (int member = 0; member < members; ++member)
      group.fill(*group.rigs[static_cast<std::size_t>(member)], round * members + member, token);
    group.run(lockstep, ProgramKind::forward);
    if (options.mode == BackwardMode::fused) {
      group.run(lockstep, ProgramKind::backward);
    } else {
      group.run(lockstep, ProgramKind::input_gradient);
      group.run(lockstep, ProgramKind::weight_gradient);
    }
    for (int member = 0; member < members; ++member) {
      group.fill(group.one, round * members + member, token);
      runtime::testing::run(group.one);
      EXPECT_EQ(group.one.loss(), group.rigs[static_cast<std::size_t>(member)]->loss()) << "microbatch " << round * members + member;
    }
  }
  const auto expected = group.one.accumulators();
  for (const char* name : {"wide", "wide.bias", "back"}) {
    std::vector<float> found;
    for (const auto& rig : group.rigs) {
      const auto part = rig->accumulators().at({name, 0});
      found.insert(found.end(), part.begin(), part.end());
    }
    EXPECT_EQ(found, expected.at({name, 0})) << name;
  }
  EXPECT_GT(lockstep.exchanged_rows, 0);
  if (token >= 0) {
    EXPECT_EQ(lockstep.fewest_received, 0);  // all rows go to the first two experts
  }
  if (capacity > 0) {
    EXPECT_GT(lockstep.unused, 0);
  }
}

TEST(Exchanges, AGroupHasTheBitsOfOneRank) {
  for (const int members : {2, 4})
    for (const BackwardMode mode : {BackwardMode::fused, BackwardMode::split})
      for (const char* policy : {"none", "full", "mlpwi_0", "offload:mlpwi_0"})
        for (const auto implementation : {kernels::Implementation::reference, kernels::Implementation::fast})
          for (const DType compute : {DType::f32, DType::bf16})
            for (const int token : {-1, 0}) expect_bits_of_one_rank(members, {mode, policy, implementation}, compute, token);
}

TEST(ExchangeRounds, HaveTheBitsOfOneRank) {
  for (const int members : {2, 4})
    for (const BackwardMode mode : {BackwardMode::fused, BackwardMode::split})
      for (const char* policy : {"none", "full", "mlpwi_0", "offload:mlpwi_0"})
        for (const DType compute : {DType::f32, DType::bf16})
          for (const int token : {-1, 0})
            expect_bits_of_one_rank(members, {mode, policy, kernels::Implementation::fast}, compute, token, 0.5);
}

// No memory that an exchange uses is that of a value which is written or read between its post and its await.
TEST(Exchanges, MemoryIsReservedFromThePostToTheAwait) {
  for (const char* policy : {"none", "full"})
    for (const BackwardMode mode : {BackwardMode::fused, BackwardMode::split}) {
      const Rig rig(exchange_net({2, 0}), SmallNet{}, {mode, policy});
      const auto place = [&](ValueId id) { return rig.plan.placements[static_cast<std::size_t>(id.index)]; };
      const auto overlap = [&](ValueId a, ValueId b) {
        const auto bytes = [&](ValueId id) { return bytes_of(rig.set.value(id).type); };
        return place(a).region == place(b).region && place(a).offset < place(b).offset + bytes(b) &&
               place(b).offset < place(a).offset + bytes(a);
      };
      int checked = 0;
      for (const ProgramKind kind : all_program_kinds) {
        if (!runs(mode, kind)) continue;
        const auto& program = rig.set.program(kind);
        for (std::size_t post = 0; post < program.size(); ++post) {
          if (!posted_by(program[post]).valid()) continue;
          const ExchangeSpec& exchange = rig.set.exchange(posted_by(program[post]));
          std::vector<ValueId> held = program[post].inputs;
          held.push_back(exchange.receive);
          for (std::size_t a = 0; a < held.size(); ++a)
            for (std::size_t b = 0; b < a; ++b) EXPECT_TRUE(held[a] == held[b] || !overlap(held[a], held[b])) << program[post].name;
          for (std::size_t i = post + 1; awaited_by(program[i]) != posted_by(program[post]); ++i)
            for (const auto* ids : {&program[i].inputs, &program[i].outputs})
              for (const ValueId id : *ids)
                for (const ValueId own : held) {
                  EXPECT_TRUE(id == own || !overlap(id, own)) << program[i].name << " and " << exchange.name;
                  ++checked;
                }
        }
      }
      EXPECT_GT(checked, 0);
    }
}

// A bounded axis is resolved from its table also where no operand of the operation is that table.
TEST(Exchanges, TheTableOfACountIsKeptAsLongAsItBoundsOperands) {
  ProgramBuilder b({DType::f32, 2, 4});
  auto rows = scale(b, received_rows(b, b.boundary_in(8), "rows"), 1.25, "first");
  rows = scale(b, rows, 1.25, "second");
  b.loss_term({.name = "z_loss"}, router_z_loss(b, rows, "loss"));
  const Rig rig(b.finish(), SmallNet{}, {BackwardMode::forward_only});
  const auto& program = rig.set.program(ProgramKind::evaluate);
  const auto first = std::ranges::find(program, "rows.offsets", &Operation::name);
  const ValueId table = first->outputs.front();
  const Place kept = rig.plan.placements[static_cast<std::size_t>(table.index)];
  ASSERT_EQ(kept.region, Region::workspace);
  int others = 0;
  for (auto operation = first + 1; operation != program.end(); ++operation)
    for (const ValueId output : operation->outputs) {
      const Place place = rig.plan.placements[static_cast<std::size_t>(output.index)];
      if (place.region != Region::workspace) continue;
      const bool apart = place.offset + bytes_of(rig.set.value(output).type) <= kept.offset ||
                         kept.offset + bytes_of(rig.set.value(table).type) <= place.offset;
      EXPECT_TRUE(apart) << operation->name;
      ++others;
    }
  EXPECT_EQ(others, 3);  // received, first and second
}

class Watch final : public OperationHook {
 public:
  void before(const Call& call) override { sizes(call); }
  void after(const Call& call) override { sizes(call), names.push_back(call.operation.name); }
  Names names;

 private:
  static void sizes(const Call& call) {
    ASSERT_EQ(call.inputs.size(), call.operation.inputs.size()) << call.operation.name;
    ASSERT_EQ(call.outputs.size(), call.operation.outputs.size()) << call.operation.name;
    for (const auto* tensors : {&call.inputs, &call.outputs})
      for (const kernels::Tensor& tensor : *tensors) EXPECT_FALSE(tensor.shape.bounded()) << call.operation.name;
  }
};

TEST(Exchanges, HooksSeePostsAndAwaits) {
  Group group(2, {BackwardMode::fused, "none"});
  Lockstep lockstep(2);
  Watch watch;
  for (int member = 0; member < 2; ++member) group.fill(*group.rigs[static_cast<std::size_t>(member)], member);
  const auto& set = group.rigs[0]->set;
  lockstep.run(set.segments(ProgramKind::forward), [&](std::size_t member, std::size_t segment, ExchangePort* port) {
    group.rigs[member]->run_segment(ProgramKind::forward, segment, port, member == 0 ? &watch : nullptr);
  });
  EXPECT_EQ(watch.names, names_of(set.program(ProgramKind::forward)));
}

TEST(Exchanges, WrongRunsAreRefused) {
  Group group(2, {BackwardMode::fused, "none"});
  Rig& rig = *group.rigs[0];
  const auto refused = [](auto&& call, const Names& words) { tests::expect_error(call, ExitCode::internal, words); };
  refused([&] { rig.run(ProgramKind::forward); }, {"the forward program has 4 segments"});
  refused([&] { rig.run_segment(ProgramKind::forward, 4, nullptr); }, {"segment 4 of the forward program, expected 0 to 3"});
  refused([&] { rig.run_segment(ProgramKind::forward, 0, nullptr); }, {"layers.0.counts.post", "without a port"});
  // The table says that a member receives more rows than its memory was planned for.
  struct Silent final : ExchangePort {
    void post(const ExchangePost& post) override {
      if (post.receive.dtype != DType::i32) return;
      for (std::int64_t i = 0; i < post.receive.elements(); ++i) post.receive.as<std::int32_t>()[i] = count;
    }
    std::int32_t count = 0;
  } port;
  port.count = 9;
  group.fill(rig, 0);
  rig.run_segment(ProgramKind::forward, 0, &port);
  refused([&] { rig.run_segment(ProgramKind::forward, 1, &port); },
          {"layers.0.dispatch.post", "'layers.0.groups' ends at 36, expected 0 to 32"});
  port.count = -1;
  rig.run_segment(ProgramKind::forward, 0, &port);
  refused([&] { rig.run_segment(ProgramKind::forward, 1, &port); }, {"layers.0.groups", "count 0 is -1"});
}

TEST(Exchanges, WrongExchangesAreRefusedWhenTheyAreBuilt) {
  const auto refused = [](auto&& call, const Names& words) { tests::expect_error(call, ExitCode::internal, words); };
  ProgramBuilder b({DType::f32, 2, 4});
  b.enter(3, "layers.3");
  const auto x = b.boundary_in(8), offsets = fixed_offsets(b, b.batch("tokens"), "offsets");
  refused([&] { (void)post_rows(b, x, {offsets, b.batch("tokens")}, 8, "rows"); }, {"layers.3.rows.post", "two tables"});
  refused([&] { (void)b.bounded_by(x, 8, 4); }, {"bounds an axis", "expected i32 [n]"});
  EXPECT_EQ(b.bounded_by(offsets, 8, 4), b.bounded_by(offsets, 8, 4));
  ProgramBuilder other({DType::f32, 2, 4});
  const auto y = other.boundary_in(8);
  const auto posted = post_parts(other, y, "parts");
  other.set_boundary_out(y);
  refused([&] { (void)other.finish(); }, {"'parts' is posted and never awaited"});
  (void)await_rows(other, posted);
  refused([&] { (void)await_rows(other, posted); }, {"'parts' is awaited twice"});
}

TEST(Exchanges, DevicesWhoseMemoryTheHostCannotReadAreRefused) {
  const ProgramSet set = set_of(2);
  const ParameterPlaces places{[](const Value&) {
                                 return Place{Region::master, 0};
                               },
                               [](const Value&) {
                                 return Place{Region::accumulator, 0};
                               }};
  tests::expect_error(
      [&] {
        (void)plan_memory(set, BackwardMode::fused, places, {kernels::Device{kernels::DeviceKind::cuda, 0}, 1});
      },
      ExitCode::config, {"device cuda", "layers.0.counts"});
}

// A member computes as many rows as one rank does, on average; it plans memory for more.
TEST(Exchanges, CostWhatAnEvenShareOfTheRowsCosts) {
  const ProgramSet alone = set_of(1), shared = set_of(2);
  for (const ProgramKind kind : all_program_kinds) EXPECT_EQ(shared.cost(kind).flops, alone.cost(kind).flops) << to_string(kind);
}

}  // namespace
}  // namespace millrace::runtime::testing
