#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/engine/optimizer_step.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/runtime/engine/made_up_device.hpp"
#include "tests/support/expect_error.hpp"

// The same training on a device that only this test defines: runtime/ has no code for it.
namespace millrace::runtime {
namespace {

using kernels::StreamKind;
using layers::testing::LoopOptions;
using layers::testing::Model;
using layers::testing::random_ids;
using layers::testing::rows_of;
using layers::testing::tiny_model;
using testing::MadeUpContext;

constexpr int microbatches = 2, steps = 3;

LoopOptions options_on(kernels::DeviceContext* device) {
  LoopOptions options;
  options.layout = "E t*2 | t*2 H";
  options.rows = 2;
  options.sequence = 12;
  options.staging = true;
  options.device = device;
  return options;
}

std::vector<StraightStep> train(Model& model) {
  model.initialise(1);
  std::vector<StraightStep> found;
  for (int step = 0; step < steps; ++step)
    found.push_back(model.loop().step(model.context(), microbatches, 44, rows_of(random_ids(48, 61, 3 + step), 2, 12),
                                      {.learning_rate = 1e-2, .update = step + 1}, 1.0));
  return found;
}

void expect_same_training(LoopOptions options, MadeUpContext& device) {
  options.device = nullptr;
  Model on_cpu(tiny_model(true), options);
  options.device = &device;
  Model there(tiny_model(true), options);
  const auto expected = train(on_cpu), found = train(there);
  for (std::size_t step = 0; step < found.size(); ++step) {
    EXPECT_EQ(found[step].loss, expected[step].loss) << step;
    EXPECT_EQ(found[step].norm, expected[step].norm) << step;
  }
  EXPECT_EQ(there.parameter_bits(), on_cpu.parameter_bits());
}

TEST(MadeUpDevice, TrainsWithTheBitsOfACpu) {
  MadeUpContext device;
  expect_same_training(options_on(nullptr), device);
  EXPECT_EQ(device.copies(StreamKind::copy_in), 2 * microbatches * steps) << "batch and loss scale";
  EXPECT_EQ(device.waits(StreamKind::compute, StreamKind::copy_in), microbatches * steps);
  EXPECT_EQ(device.copies(StreamKind::compute), microbatches * steps) << "the losses, and nothing of passes without any";
  EXPECT_EQ(device.copies(StreamKind::copy_out), 0);
}

TEST(MadeUpDevice, OffloadsAndFetches) {
  MadeUpContext device;
  auto options = options_on(nullptr);
  options.rematerialize = "offload:mlpwi_0";
  expect_same_training(options, device);
  EXPECT_GT(device.copies(StreamKind::copy_out), 0);
  EXPECT_GT(device.copies(StreamKind::copy_in), 2 * microbatches * steps);
}

TEST(MadeUpDevice, HasASnapshotOnceTheUpdateWaitedForIt) {
  MadeUpContext device;
  Model model(tiny_model(true), options_on(&device));
  model.initialise(1);
  const auto before = model.parameter_bits();
  int copies = 0;
  for (const Stage* stage : model.stages()) {
    stage->shard().take_snapshot(model.context());
    copies += 2;
    EXPECT_EQ(device.copies(StreamKind::background), copies) << "parameters and states of a stage";
  }
  for (const Stage* stage : model.stages()) {
    const StageShard& shard = stage->shard();
    shard.after_snapshot(model.context());
    for (const auto& tensor : shard.tensors()) {
      const auto staged = shard.snapshot_master(tensor);
      EXPECT_NE(staged.data(), shard.master(tensor).data);
      EXPECT_EQ(std::memcmp(staged.data(), shard.master(tensor).data, staged.size()), 0) << tensor.name;
    }
  }
  EXPECT_EQ(model.parameter_bits(), before);
}

TEST(MadeUpDevice, LetsTheHostReadLogitsFromItsOwnMemory) {
  MadeUpContext device;
  Model on_cpu(tiny_model(true), options_on(nullptr)), there(tiny_model(true), options_on(&device));
  on_cpu.initialise(1);
  there.initialise(1);
  const auto fill = rows_of(random_ids(48, 61, 3), 2, 12);
  EXPECT_EQ(there.logits(fill), on_cpu.logits(fill));
  const StageId last{1};
  const auto& memory = there.loop().rank().memory();
  EXPECT_NE(memory.host_slot(MemoryKind::logits, last), memory.slot(MemoryKind::logits, last));
}

TEST(MadeUpDevice, ShowsAHookCopies) {
  class Hook : public OperationHook {
   public:
    explicit Hook(std::span<const std::byte> arena) : arena_(arena) {}
    void after(const Call& call) override {
      for (const auto& tensor : call.outputs) {
        ++seen_;
        direct_ += tensor.data >= arena_.data() && tensor.data < arena_.data() + arena_.size();
      }
    }
    int seen_ = 0, direct_ = 0;

   private:
    std::span<const std::byte> arena_;
  };
  MadeUpContext device;
  Model there(tiny_model(true), options_on(&device)), on_cpu(tiny_model(true), options_on(nullptr));
  for (Model* model : {&there, &on_cpu}) {
    model->initialise(1);
    Hook hook(model->loop().rank().memory().bytes());
    (void)model->loop().evaluate(model->context(), 1, rows_of(random_ids(48, 61, 3), 2, 12), &hook);
    EXPECT_GT(hook.seen_, 0);
    EXPECT_EQ(hook.direct_, model == &there ? 0 : hook.seen_);
  }
}

// -- an optimizer whose kernel the device lacks -------------------------------------------------------------------------------------------

constinit kernels::Kernel<void(const kernels::ExecutionContext&, const kernels::Tensor& x)> halve_row("halve_parameter");
void halve(const kernels::ExecutionContext&, const kernels::Tensor& x) { x.as<float>()[0] /= 2; }
const kernels::InTable halve_in_table{kernels::Backend::reference, halve_row, halve};

class Halving final : public Optimizer {
 public:
  [[nodiscard]] const std::vector<OptimizerState>& states() const override { return states_; }
  [[nodiscard]] KernelRows kernel_rows() const override { return {&halve_row}; }
  void update(const kernels::ExecutionContext& context, const UpdateScalars&, std::span<const kernels::OptimizerTensors> tensors,
              kernels::Scratch) const override {
    for (const auto& each : tensors) halve_row(context, each.parameter);
  }

 private:
  std::vector<OptimizerState> states_;
};

TEST(MadeUpDevice, IsRefusedByThePlanIfTheOptimizerHasNoKernelForIt) {
  RankOptions options;
  options.plan_only = true;
  options.device = testing::made_up_device;
  options.optimizer = std::make_shared<Halving>();
  tests::expect_error([&] { const RankCompute rank({}, options); }, ExitCode::config,
                      {"device made-up has no kernel for halve_parameter (the optimizer's update)"});
  options.training = false;
  EXPECT_NO_THROW(RankCompute({}, options)) << "an evaluation updates nothing";
}

}  // namespace
}  // namespace millrace::runtime
