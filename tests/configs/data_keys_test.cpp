// Where a run evaluates, and how it mixes its sources.
#include <algorithm>

#include "configs/show.hpp"
#include "tests/configs/support.hpp"

namespace millrace::configs {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;
using Words = std::vector<std::string>;

constexpr std::string_view token_run = "model.preset = \"tiny\"\ndata.tokens = \"corpus\"\n";

/// Loads a run beside whose data `found` lies.
LoadedRun load_beside(const FoundValidation& found, std::string_view text, Words overrides = {}) {
  const TemporaryFolder folder;
  auto request = request_for(folder.write("run.toml", text), std::move(overrides));
  request.find_validation = [&](const RunConfig& run) {
    EXPECT_EQ(run.data.tokens, Words{"corpus"});
    return found;
  };
  return load(request);
}

TEST(DataKeys, ValidationThatIsFoundTakesThePlaceOfTheShare) {
  const FoundValidation found{{"corpus/val.bin"}};
  const auto run = load_beside(found, token_run);
  EXPECT_EQ(run.config.data.validation, found.files);
  EXPECT_TRUE(run.config.data.validation_found);
  EXPECT_EQ(run.config.data.held_out, 0);
  const auto shown = show(run);
  EXPECT_NE(shown.find("validation = [\"corpus/val.bin\"]"), std::string::npos);
  EXPECT_NE(shown.find("# built-in: found beside data.tokens"), std::string::npos);
  EXPECT_NE(shown.find("# built-in: 0, as data.validation is found"), std::string::npos);
  // The run that this describes is the same when it is loaded again, where nothing is found.
  const TemporaryFolder folder;
  const auto again = load(request_for(folder.write("shown.toml", shown)));
  EXPECT_EQ(again.config.data.validation, found.files);
  EXPECT_EQ(again.config.data.held_out, 0);

  EXPECT_EQ(load_beside({}, token_run).config.data.held_out, 10);
  const auto share = load_beside(found, token_run, {"data.held_out=5"});
  EXPECT_TRUE(share.config.data.validation.empty());
  EXPECT_EQ(share.config.data.held_out, 5);
  EXPECT_TRUE(share.warnings.empty());
  const auto none = load_beside(found, token_run, {"data.validation="});
  EXPECT_TRUE(none.config.data.validation.empty());
  EXPECT_EQ(none.config.data.held_out, 10);
}

TEST(DataKeys, ARunThatBeganWithoutValidationDataGoesOnWithout) {
  const auto run = load_beside({{"corpus/val.bin"}, false, "not used"}, token_run);
  EXPECT_TRUE(run.config.data.validation.empty());
  EXPECT_EQ(run.config.data.held_out, 10);
  EXPECT_EQ(run.warnings, Words{"corpus/val.bin: not used"});
}

TEST(DataKeys, WarnsWhereValidationDataWouldBeTrainedOn) {
  const auto run = load_beside({{"corpus/val.bin"}, true}, token_run, {"data.held_out=0"});
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_EQ(run.warnings.front(),
            "command line: data.held_out = 0 is given, so the run trains on corpus/val.bin, which data.tokens "
            "contains; data.validation would evaluate on it");
}

TEST(DataKeys, ValidationThatIsGivenOverridesAShareFromBelow) {
  const std::string with_share = std::string(small_run) + "data.held_out = 5\n";
  const auto run = load_text(with_share, {"data.validation=a,b"});
  EXPECT_EQ(run.config.data.validation, (Words{"a", "b"}));
  EXPECT_FALSE(run.config.data.validation_found);
  EXPECT_EQ(run.config.data.held_out, 0);
  EXPECT_EQ(load_text(small_run, {"data.validation=a"}).config.data.held_out, 0);
  EXPECT_EQ(load_text(small_run, {"data.validation=a", "evaluate.every=10"}).config.evaluate.every, 10);
  expect_error([&] { (void)load_text(with_share + "data.validation = \"a\"\n"); }, ExitCode::config,
               {"run.toml:3:6: data.held_out = 5, but data.validation (at ", "run.toml:4:6) names what the run evaluates on"});
  expect_error(
      [&] {
        (void)load_text(small_run, {"data.held_out=0", "evaluate.every=10"});
      },
      ExitCode::config, {"data.held_out = 0 keeps nothing"});
}

TEST(DataKeys, AMixtureHasAWeightForEachEntry) {
  const auto mixed = [](Words overrides) { return load_text("model.preset = \"tiny\"\n", std::move(overrides)); };
  const auto run = mixed({"data.tokens=A,B", "data.weights=0.3,0.7"});
  EXPECT_EQ(run.config.data.weights, (std::vector<double>{0.3, 0.7}));
  expect_error(
      [&] {
        (void)mixed({"data.tokens=A,B", "data.weights=1"});
      },
      ExitCode::config, {"command line: data.weights = [1.0], expected 2 numbers, one for each entry of data.tokens"});
  expect_error([&] { (void)mixed({"data.text=A", "data.weights=1,2"}); }, ExitCode::config, {"1 number, one for each entry of data.text"});
  expect_error([&] { (void)mixed({"data.tokens=A,B", "data.weights=1,0"}); }, ExitCode::config, {"data.weights = 1,0", "above 0"});
  expect_error([&] { (void)mixed({"data.tokens=0.3,A,0.7,B"}); }, ExitCode::config,
               {"which has weights in it; expected data.tokens=A,B data.weights=0.3,0.7"});
}

}  // namespace
}  // namespace millrace::configs
