#include "runtime/passes/offload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/runtime/program/rig.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime::testing {
namespace {

ProgramSet programs(const std::string& policy, const SmallNet& net = {}) {
  return differentiate(build(net), RematerializationPolicy::parse(policy, labels()));
}

/// Position of the operation of this name; -1 if there is none.
std::ptrdiff_t position(const ProgramSet& set, ProgramKind kind, const std::string& name) {
  const auto& program = set.program(kind);
  const auto found = std::ranges::find(program, name, &Operation::name);
  return found == program.end() ? -1 : found - program.begin();
}

/// A parameter may have the same name as a computed value.
auto is_named(const ProgramSet& set, const std::string& name) {
  return [&set, &name](ValueId id) { return set.value(id).role == Role::intermediate && set.value(id).name == name; };
}

/// Position of the first operation that reads the value of this name, or the end.
std::ptrdiff_t first_reader(const ProgramSet& set, ProgramKind kind, const std::string& name) {
  const auto& program = set.program(kind);
  const auto reads = [&](const Operation& operation) {
    return !operation.outputs.empty() && std::ranges::any_of(operation.inputs, is_named(set, name));
  };
  return std::ranges::find_if(program, reads) - program.begin();
}

std::ptrdiff_t writer(const ProgramSet& set, ProgramKind kind, const std::string& name) {
  const auto& program = set.program(kind);
  const auto writes = [&](const Operation& operation) { return std::ranges::any_of(operation.outputs, is_named(set, name)); };
  return std::ranges::find_if(program, writes) - program.begin();
}

bool is_transfer(const Operation& operation) {
  const auto kind = operation.rule->name();
  return kind == "offload" || kind == "offload_end" || kind == "fetch" || kind == "fetch_end";
}

TEST(OffloadPolicy, WordsStandBesidePoliciesAndLabels) {
  using Labels = std::set<std::string>;
  const auto alone = RematerializationPolicy::parse("offload:context", labels());
  EXPECT_FALSE(alone.keep_everything);
  EXPECT_EQ(alone.keep, Labels{"context"});
  EXPECT_EQ(alone.offload, Labels{"context"});
  const auto listed = RematerializationPolicy::parse("mlpwo, offload:context,offload:mlpwi_0", labels());
  EXPECT_EQ(listed.keep, (Labels{"context", "mlpwi_0", "mlpwo"}));
  EXPECT_EQ(listed.offload, (Labels{"context", "mlpwi_0"}));
  const auto named = RematerializationPolicy::parse("save_out_proj,offload:context", labels());
  EXPECT_EQ(named.keep, (Labels{"context", "out_proj"}));
  EXPECT_EQ(named.offload, Labels{"context"});
  const auto everything = RematerializationPolicy::parse("none,offload:context", labels());
  EXPECT_TRUE(everything.keep_everything);
  EXPECT_EQ(everything.offload, Labels{"context"});
  EXPECT_TRUE(RematerializationPolicy::parse("minimal", labels()).offload.empty());
}

TEST(OffloadPolicy, UnknownLabelsNameTheNearest) {
  const auto refused = [](const char* text, const std::vector<std::string>& parts) {
    tests::expect_error([&] { (void)RematerializationPolicy::parse(text, labels()); }, ExitCode::config, parts);
  };
  refused("offload:contxt", {"'contxt' in 'offload:contxt'", "label of this model, whose labels are ", "; did you mean context?"});
  refused("offload:", {"neither a policy nor a label of this model"});
  refused("offload:full", {"'full'"});  // a policy is not a label
  refused("offload:context,mlpw0", {"'mlpw0'", "did you mean mlpwo?"});
  refused("minimal,full,offload:context", {"'minimal'"});
}

TEST(Offload, NobodyAsksForItAndNothingChanges) {
  const auto set = programs("minimal");
  for (const auto kind : all_program_kinds)
    for (const auto& operation : set.program(kind)) EXPECT_FALSE(is_transfer(operation)) << operation.name;
}

TEST(Offload, FPutsOutAndIBringsInBeforeTheFirstReader) {
  // "mlpwo" labels the layer's result: the next layer reads it, and that layer's backward comes first.
  const std::map<std::string, std::string> values{
      {"context", "attention"}, {"mlpwi_0", "gate"}, {"query_proj", "q_rope"}, {"mlpwo", "residual_2"}};
  for (const std::string base : {"", "none,", "minimal,"}) {
    for (const auto& [label, of] : values) {
      const auto set = programs(base + "offload:" + label);
      int pairs = 0;
      for (const std::string layer : {"layers.0.", "layers.1."}) {
        const auto name = layer + of;
        SCOPED_TRACE(base + "offload:" + label + " " + name);
        const auto out = position(set, ProgramKind::forward, name + ".offload");
        if (out < 0) continue;
        ++pairs;
        EXPECT_GT(out, writer(set, ProgramKind::forward, name));
        EXPECT_LE(out, writer(set, ProgramKind::forward, name) + 2);  // attention has two results
        EXPECT_GT(position(set, ProgramKind::forward, name + ".offload_end"), out);
        for (const auto kind : {ProgramKind::input_gradient, ProgramKind::backward}) {
          const auto in = position(set, kind, name + ".fetch"), end = position(set, kind, name + ".fetch_end");
          EXPECT_GE(in, 0);
          EXPECT_LT(in, end);
          EXPECT_EQ(writer(set, kind, name + ".fetched"), end);
          EXPECT_LT(end, first_reader(set, kind, name + ".fetched"));
          EXPECT_EQ(first_reader(set, kind, name), std::ssize(set.program(kind))) << "no operation reads the offloaded value";
        }
        EXPECT_EQ(first_reader(set, ProgramKind::weight_gradient, name), std::ssize(set.program(ProgramKind::weight_gradient)));
      }
      EXPECT_GE(pairs, 1);
      for (const auto& operation : set.program(ProgramKind::evaluate)) EXPECT_FALSE(is_transfer(operation)) << operation.name;
    }
  }
}

TEST(Offload, CopiesBeginALayerEarlyAndEndALayerLate) {
  SmallNet net;
  net.end_layer = 4;
  const auto set = programs("none,offload:mlpwi_0", net);
  const auto first_of = [&](ProgramKind kind, int layer) {
    const auto& program = set.program(kind);
    return std::ranges::find_if(program, [&](const Operation& one) { return one.layer == layer && !is_transfer(one); }) - program.begin();
  };
  const auto forward = ProgramKind::forward, backward = ProgramKind::input_gradient;
  EXPECT_GT(position(set, forward, "layers.0.gate.offload_end"), first_of(forward, 1));
  EXPECT_LT(position(set, forward, "layers.0.gate.offload_end"), first_of(forward, 2));
  EXPECT_LT(position(set, backward, "layers.0.gate.fetch"), first_of(backward, 1));
  EXPECT_GT(position(set, backward, "layers.0.gate.fetch"), first_of(backward, 2));
  EXPECT_GT(position(set, backward, "layers.0.gate.fetch_end"), first_of(backward, 1));
  // An operation that computes waits for all copies that have begun: those of the next layer begin after the end of this layer.
  for (int layer = 1; layer < 4; ++layer)
    EXPECT_LT(position(set, backward, "layers." + std::to_string(layer) + ".gate.fetch_end"),
              position(set, backward, "layers." + std::to_string(layer - 1) + ".gate.fetch"));
}

TEST(Offload, TheLastLayersCopyBeginsWithTheProgram) {
  const auto set = programs("none,offload:context");
  const auto fetch = position(set, ProgramKind::input_gradient, "layers.1.attention.fetch");
  EXPECT_GE(fetch, 0);
  EXPECT_LT(fetch, position(set, ProgramKind::input_gradient, "loss.dx"));
}

// Also if layer 0 is the only layer of its stage.
TEST(Offload, TheOnlyLayersCopyBeginsWithTheProgram) {
  SmallNet net;
  net.end_layer = 1;
  const auto set = programs("none,offload:context", net);
  const auto fetch = position(set, ProgramKind::input_gradient, "layers.0.attention.fetch");
  EXPECT_GE(fetch, 0);
  EXPECT_LT(fetch, position(set, ProgramKind::input_gradient, "loss.dx"));
}

TEST(Offload, ValuesLieInTheirOwnRegion) {
  for (const auto mode : {BackwardMode::split, BackwardMode::fused}) {
    const Rig kept(SmallNet{}, {mode, "context,mlpwi_0"}), put(SmallNet{}, {mode, "context,offload:mlpwi_0"});
    const auto stashed = [](const Rig& rig) { return rig.planned_bytes(Region::stash_input) + rig.planned_bytes(Region::stash_weight); };
    const auto bytes = kernels::align_up(8U * 12U * sizeof(float));  // rows x sequence, hidden
    EXPECT_EQ(kept.planned_bytes(Region::offload), 0U);
    EXPECT_EQ(put.planned_bytes(Region::offload), 2 * bytes);
    EXPECT_EQ(stashed(put), stashed(kept) - 2 * bytes);
    int placed = 0;
    for (std::size_t i = 0; i < put.set.values.size(); ++i) {
      const bool there = put.plan.placements[i].region == Region::offload;
      EXPECT_EQ(there, put.set.values[i].offloaded) << put.set.values[i].name;
      placed += there ? 1 : 0;
    }
    EXPECT_EQ(placed, 2);
  }
}

TEST(Offload, ChangesNoBit) {
  for (const auto mode : {BackwardMode::split, BackwardMode::fused}) {
    Rig everything(SmallNet{}, {mode});
    everything.run(ProgramKind::forward);
    everything.run_backward();
    for (const char* policy : {"offload:context", "none,offload:context,offload:mlpwi_0", "offload:mlpwo", "minimal,offload:query_proj",
                               "full,offload:mlpwo,offload:out_proj", "none,offload:value_proj,offload:key_proj,offload:mlpwi_1"}) {
      SCOPED_TRACE(policy);
      Rig rig(SmallNet{}, {mode, policy});
      // An operation that reads a value before it was copied back finds these bytes.
      for (const auto region : {Region::offload, Region::workspace, Region::handoff, Region::stash_input, Region::stash_weight})
        rig.fill(region, std::byte{0x7f});
      rig.run(ProgramKind::forward);
      rig.fill(Region::workspace, std::byte{0x7f});
      rig.run_backward();
      EXPECT_EQ(rig.accumulators(), everything.accumulators());
      EXPECT_EQ(rig.loss(), everything.loss());
    }
  }
}

TEST(Offload, ComputesNothing) {
  const auto set = programs("none,offload:context");
  const auto plain = programs("none");
  for (const auto kind : all_program_kinds) EXPECT_EQ(set.cost(kind).flops, plain.cost(kind).flops) << to_string(kind);
}

}  // namespace
}  // namespace millrace::runtime::testing
