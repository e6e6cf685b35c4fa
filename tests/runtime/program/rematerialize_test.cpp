#include "runtime/passes/rematerialize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/base/check.hpp"
#include "tests/runtime/program/rig.hpp"

namespace millrace::runtime::testing {
namespace {

class CountRecomputed final : public OperationHook {
 public:
  void after(const Call& call) override {
    if (call.operation.recomputed) names.push_back(call.operation.name);
  }
  std::vector<std::string> names;
};

TEST(Rematerialization, PoliciesByName) {
  EXPECT_TRUE(RematerializationPolicy::parse("none", {}).keep_everything);
  EXPECT_FALSE(RematerializationPolicy::parse("full", {}).keep_everything);
  EXPECT_TRUE(RematerializationPolicy::parse("full", {}).keep.empty());
  EXPECT_EQ(RematerializationPolicy::parse("save_out_proj", {}).keep, std::set<std::string>{"out_proj"});
  EXPECT_TRUE(RematerializationPolicy::parse("minimal_with_context", {}).keep.contains("context"));
  EXPECT_FALSE(RematerializationPolicy::parse("minimal", {}).keep.contains("context"));
  EXPECT_TRUE(RematerializationPolicy::parse("save_dot_except_mlpwi", {}).keep.contains("mlpwo"));
  EXPECT_FALSE(RematerializationPolicy::parse("save_dot_except_mlp", {}).keep.contains("mlpwo"));
  EXPECT_EQ(RematerializationPolicy::parse("context, mlpwo", labels()).keep, (std::set<std::string>{"context", "mlpwo"}));
  EXPECT_EQ(RematerializationPolicy::parse(" \tcontext \t,  mlpwo\t ", labels()).keep, (std::set<std::string>{"context", "mlpwo"}));
}

// MaxText's remat_policy of these names, expressed by the labels that layers write.
TEST(Rematerialization, NamedPoliciesKeepWhatTheirNamesSay) {
  const std::set<std::string> qkv = {"query_proj", "key_proj", "value_proj", "qkv_proj"};
  const auto and_also = [](std::set<std::string> all, const std::set<std::string>& more) {
    all.insert(more.begin(), more.end());
    return all;
  };
  const auto without_mlp = and_also(qkv, {"out_proj"}), all_products = and_also(without_mlp, {"mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"});
  const std::map<std::string, std::set<std::string>> policies = {{"full", {}},
                                                                 {"minimal", all_products},
                                                                 {"minimal_with_context", and_also(all_products, {"context"})},
                                                                 {"save_qkv_proj", qkv},
                                                                 {"save_out_proj", {"out_proj"}},
                                                                 {"save_dot_except_mlp", without_mlp},
                                                                 {"save_dot_except_mlpwi", and_also(without_mlp, {"mlpwo"})},
                                                                 {"save_dot_with_context_except_mlp", and_also(without_mlp, {"context"})}};
  for (const auto& [name, keep] : policies) EXPECT_EQ(RematerializationPolicy::parse(name, {}).keep, keep) << name;
}

TEST(Rematerialization, AnUnknownWordNamesTheNearest) {
  const auto message = [](const char* text) -> std::string {
    try {
      (void)RematerializationPolicy::parse(text, labels());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::config);
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message("minimall").find("did you mean minimal?"), std::string::npos) << message("minimall");
  try {  // one letter away, although another name ends with exactly this word
    (void)RematerializationPolicy::parse("words", {"a_label_that_ends_with_words", "wards"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean wards?"), std::string::npos) << error.what();
  }
  EXPECT_NE(message("context,mlpw0").find("did you mean mlpwo?"), std::string::npos) << message("context,mlpw0");
  EXPECT_NE(message("").find("neither a policy"), std::string::npos);
  // A letter too many, too few, another one; each at a place where the nearest by mere length or by its first letters is another word.
  EXPECT_NE(message("mlpwi_9").find("did you mean mlpwi_0?"), std::string::npos) << message("mlpwi_9");
  EXPECT_NE(message("mlpxwo").find("did you mean mlpwo?"), std::string::npos) << message("mlpxwo");
  EXPECT_NE(message("ut_proj").find("did you mean out_proj?"), std::string::npos) << message("ut_proj");
  EXPECT_NE(message("hey_proj").find("did you mean key_proj?"), std::string::npos) << message("hey_proj");
  EXPECT_NE(message("ful").find("did you mean full?"), std::string::npos) << message("ful");
  EXPECT_NE(message("nine").find("did you mean none?"), std::string::npos) << message("nine");
  EXPECT_NE(message("save_out_prj").find("did you mean save_out_proj?"), std::string::npos) << message("save_out_prj");
}

struct Case {
  const char* policy;
  std::vector<std::string> recomputed;  // for one layer, without "layers.N."
};

/// What the layer's gradients read and the policy does not keep, and what is needed to compute it. The sum with the residual is
/// part of "o", including its label.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"none", {}},
      {"full", {"norm_1", "q", "k", "v", "q_rope", "k_rope", "attention", "o", "norm_2", "gate", "up", "swiglu"}},
      {"minimal", {"norm_1", "attention", "norm_2", "swiglu"}},
      {"minimal_with_context", {"norm_1", "norm_2", "swiglu"}},
      {"save_out_proj", {"norm_1", "q", "k", "v", "q_rope", "k_rope", "attention", "norm_2", "gate", "up", "swiglu"}},
  };
  return list;
}

TEST(Rematerialization, GradientsKeepTheirBitsAndOnlyWhatIsNeededRunsAgain) {
  for (const auto mode : {BackwardMode::split, BackwardMode::fused}) {
    Rig everything(SmallNet{}, {mode});
    everything.run(ProgramKind::forward);
    everything.run_backward();
    for (const auto& one : cases()) {
      Rig rig(SmallNet{}, {mode, one.policy});
      CountRecomputed hook;
      rig.run(ProgramKind::forward, &hook);
      EXPECT_TRUE(hook.names.empty());
      rig.run_backward(&hook);
      std::vector<std::string> expected;
      for (const char* layer : {"layers.1.", "layers.0."})
        for (const auto& name : one.recomputed) expected.push_back(layer + name + ".recomputed");
      EXPECT_EQ(hook.names, expected) << one.policy;
      EXPECT_EQ(rig.accumulators(), everything.accumulators()) << one.policy;
      EXPECT_EQ(rig.loss(), everything.loss());
    }
  }
}

TEST(Rematerialization, TheStashShrinksWithThePolicy) {
  const auto bytes = [](const char* policy) {
    const Rig rig(SmallNet{}, {BackwardMode::fused, policy});
    return rig.planned_bytes(Region::stash_input);
  };
  EXPECT_LT(bytes("full"), bytes("save_out_proj"));
  EXPECT_LT(bytes("save_out_proj"), bytes("minimal"));
  EXPECT_LT(bytes("minimal"), bytes("minimal_with_context"));
  EXPECT_LT(bytes("minimal_with_context"), bytes("none"));
}

TEST(Rematerialization, FullKeepsTheLayersInputsAlone) {
  const auto set = differentiate(build(SmallNet{}), RematerializationPolicy::parse("full", {}));
  std::set<std::string> kept;
  std::set<int> of_forward;
  for (const auto& operation : set.program(ProgramKind::forward))
    for (const auto output : operation.outputs) of_forward.insert(output.index);
  for (const auto kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient})
    for (const auto& operation : set.program(kind))
      for (const auto input : operation.inputs)
        if (of_forward.contains(input.index)) kept.insert(set.value(input).name);
  EXPECT_EQ(kept, (std::set<std::string>{"embedding", "layers.0.residual_2", "layers.1.residual_2", "norm", "norm.r"}));
}

// It is in memory for the next layer anyway.
TEST(Rematerialization, WhatAnotherLayerReadsIsNotComputedAgain) {
  ProgramBuilder builder({kernels::DType::f32, 2, 4});
  builder.enter(0, "layers.0");
  const auto norm = rms_norm(builder, builder.boundary_in(8), builder.parameter("n", {8}, in_f32), {1e-5F}, "norm");
  const auto shared = linear(builder, norm, builder.parameter("a", {8, 8}), "shared");
  const auto own = linear(builder, shared, builder.parameter("b", {8, 8}), "own");
  builder.enter(1, "layers.1");
  builder.set_boundary_out(swiglu(builder, shared, own, "swiglu"));
  const auto set = differentiate(builder.finish(), RematerializationPolicy::parse("full", {}));
  std::vector<std::string> names;
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    if (operation.recomputed) names.push_back(operation.name);
  EXPECT_EQ(names, std::vector<std::string>{"layers.0.norm.recomputed"});
}

// Values that a single operation needs are recomputed too: an operand that only W reads, and the operands of its recomputation.
TEST(Rematerialization, AChainIsComputedAgainFromItsBegin) {
  ProgramBuilder builder({kernels::DType::f32, 2, 4});
  builder.enter(0, "layers.0");
  auto x = builder.boundary_in(8);
  for (const char* name : {"first", "second", "third"}) x = scale(builder, x, 0.5, name);
  builder.set_boundary_out(linear(builder, x, builder.parameter("w", {8, 8}), "product"));
  const auto set = differentiate(builder.finish(), RematerializationPolicy::parse("full", {}));
  std::vector<std::string> names;
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    if (operation.recomputed) names.push_back(operation.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.first.recomputed", "layers.0.second.recomputed", "layers.0.third.recomputed"}));
}

TEST(Rematerialization, RecomputedOperandsOfWAreHandedOver) {
  const Rig none(SmallNet{}, {BackwardMode::split, "none"});
  const Rig full(SmallNet{}, {BackwardMode::split, "full"});
  EXPECT_LT(full.planned_bytes(Region::stash_weight), none.planned_bytes(Region::stash_weight));
  EXPECT_GT(full.planned_bytes(Region::handoff), none.planned_bytes(Region::handoff));
}

TEST(Rematerialization, RecomputationStandsRightBeforeItsLayersBackward) {
  const auto set = differentiate(build(SmallNet{}), RematerializationPolicy::parse("full", {}));
  const auto& program = set.program(ProgramKind::input_gradient);
  int layer = -1;
  bool gradients_began = false;
  for (const auto& operation : program) {
    if (operation.layer != layer) gradients_began = false;
    layer = operation.layer;
    if (operation.recomputed)
      EXPECT_FALSE(gradients_began) << operation.name;
    else
      gradients_began = true;
  }
}

}  // namespace
}  // namespace millrace::runtime::testing
