#include "runtime/program/executor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "kernels/base/check.hpp"
#include "tests/runtime/program/rig.hpp"

namespace millrace::runtime::testing {
namespace {

class Recorder final : public OperationHook {
 public:
  void before(const Call& call) override { begun.push_back(call.operation.name); }
  void after(const Call& call) override {
    ended.push_back(call.operation.name);
    EXPECT_EQ(&call.programs.program(call.kind)[call.index], &call.operation);
    EXPECT_EQ(call.inputs.size(), call.operation.inputs.size());
    EXPECT_EQ(call.outputs.size(), call.operation.outputs.size());
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      EXPECT_EQ(call.outputs[i].dtype, call.programs.value(call.operation.outputs[i]).type.dtype);
      EXPECT_NE(call.outputs[i].data, nullptr);
    }
  }
  std::vector<std::string> begun, ended;
};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Executor, TheHookSeesEveryOperationInOrder) {
  Rig rig(SmallNet{}, {BackwardMode::split, "full"});
  for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient}) {
    Recorder recorder;
    rig.run(kind, &recorder);
    std::vector<std::string> names;
    for (const auto& operation : rig.set.program(kind)) names.push_back(operation.name);
    EXPECT_FALSE(names.empty());
    EXPECT_EQ(recorder.begun, names);
    EXPECT_EQ(recorder.ended, names);
  }
}

TEST(Executor, AKernelsErrorNamesTheOperation) {
  SmallNet net;
  Rig rig(net, {});
  reinterpret_cast<std::int32_t*>(rig.bindings[Region::batch])[3] = 99;
  try {
    rig.run(ProgramKind::forward);
    FAIL() << "token 99 is beyond the vocabulary";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_EQ(std::string(error.what()).find("embedding: "), 0U) << error.what();
  }
}

TEST(Executor, AProgramWithoutScratchNeedsNoWorkspace) {
  ProgramBuilder builder({kernels::DType::f32, 2, 4});
  builder.set_boundary_out(scale(builder, builder.boundary_in(8), 0.5, "half"));
  Rig rig(builder.finish(), SmallNet{}, {});
  rig.bindings[Region::workspace] = nullptr;
  EXPECT_EQ(message_of([&] { rig.run(ProgramKind::forward); }), "no error");
  Rig head(SmallNet{}, {BackwardMode::split, "none", kernels::Implementation::fast});
  head.bindings[Region::workspace] = nullptr;
  EXPECT_NE(message_of([&] { head.run(ProgramKind::input_gradient); }).find("runs without a workspace"), std::string::npos);
}

TEST(Executor, ProgramsOfAnotherModeAndMissingBasesAreRefused) {
  Rig rig(SmallNet{}, {BackwardMode::fused});
  EXPECT_NE(message_of([&] { rig.run(ProgramKind::weight_gradient); }).find("weight_gradient"), std::string::npos);
  rig.bindings[Region::batch] = nullptr;
  EXPECT_NE(message_of([&] { rig.run(ProgramKind::forward); }).find("batch"), std::string::npos);
}

TEST(Executor, APlanOfOtherProgramsIsRefused) {
  const Rig small(SmallNet{}, {});
  SmallNet net;
  net.end_layer = 1;
  const Rig smaller(net, {});
  const auto message = message_of([&] { const Executor executor(small.set, smaller.plan); });
  EXPECT_NE(message.find("the plan places " + std::to_string(smaller.set.values.size()) + " values, the programs have " +
                         std::to_string(small.set.values.size())),
            std::string::npos)
      << message;
}

// The key by which executions with equal memory are recognised has no base of a region that the program does not touch.
TEST(Executor, TouchedBindingsAreThoseOfOperandsAlone) {
  Rig rig(SmallNet{}, {});
  const Executor executor(rig.set, rig.plan);
  for (const auto kind : {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient}) {
    std::array<bool, region_count> wanted{};
    for (const auto& operation : rig.set.program(kind))
      for (const auto* ids : {&operation.inputs, &operation.outputs})
        for (const auto id : *ids) wanted[static_cast<std::size_t>(rig.plan.placements[static_cast<std::size_t>(id.index)].region)] = true;
    const auto touched = executor.touched(kind, rig.bindings);
    for (std::size_t region = 0; region < region_count; ++region)
      EXPECT_EQ(touched.base[region], wanted[region] ? rig.bindings.base[region] : nullptr)
          << to_string(kind) << " " << to_string(static_cast<Region>(region));
  }
}

TEST(Executor, TensorIsWhereTheHookSawIt) {
  Rig rig(SmallNet{}, {});
  const Executor executor(rig.set, rig.plan);
  class Check final : public OperationHook {
   public:
    Check(const Executor& executor, const Bindings& bindings) : executor_(executor), bindings_(bindings) {}
    void after(const Call& call) override {
      for (std::size_t i = 0; i < call.outputs.size(); ++i)
        EXPECT_EQ(executor_.tensor(call.operation.outputs[i], bindings_).data, call.outputs[i].data);
    }

   private:
    const Executor& executor_;
    const Bindings& bindings_;
  } check(executor, rig.bindings);
  rig.run(ProgramKind::forward, &check);
  rig.run_backward(&check);
}

}  // namespace
}  // namespace millrace::runtime::testing
