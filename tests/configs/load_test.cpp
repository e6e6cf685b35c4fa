#include "configs/load.hpp"

#include "tests/configs/support.hpp"

namespace millrace::configs {
namespace {

using tests::expect_error;
using tests::TemporaryFolder;

TEST(Load, LayersOverruleEachOtherInOrder) {
  const TemporaryFolder folder;
  LoadRequest request =
      request_for(folder.write("a.toml", std::string(small_run) + "[train]\nsteps = 10\nbatch = 2\nseed = 3\nsequence = 32\n"));
  request.files.push_back(folder.write("b.toml", "train.batch = 4\ntrain.seed = 5\n"));
  request.environment = {"PATH=/bin", "MILLRACE_TRAIN_SEED=7", "MILLRACE_TRAIN_SEQUENCE=64"};
  request.overrides = {"train.sequence=16"};
  const LoadedRun run = load(request);

  EXPECT_EQ(run.config.model.hidden_size, 32);
  EXPECT_EQ(run.config.train.steps, 10);
  EXPECT_EQ(run.config.train.batch, 4);
  EXPECT_EQ(run.config.train.seed, 7);
  EXPECT_EQ(run.config.train.sequence, 16);
  EXPECT_EQ(run.config.train.microbatches, runtime::TrainConfig().microbatches);

  const auto place = [&](const char* key) { return run.settings.at(key).origin.place; };
  EXPECT_EQ(place("train.microbatches"), "built-in");
  EXPECT_EQ(place("model.hidden_size").substr(presets_folder.size()), "/tiny.toml:6:1");
  EXPECT_EQ(place("train.steps"), folder / "a.toml:4:1");
  EXPECT_EQ(place("train.batch"), folder / "b.toml:1:7");
  EXPECT_EQ(place("train.seed"), "environment MILLRACE_TRAIN_SEED");
  EXPECT_EQ(place("train.sequence"), "command line");
  EXPECT_TRUE(run.given("model.hidden_size"));
  EXPECT_FALSE(run.given("train.microbatches"));
}

TEST(Load, ATrialOfAFewStepsShortensTheWarmUp) {
  const std::string text = std::string(small_run) + "[train]\nsteps = 520\nwarmup_steps = 40\n";
  const auto trial = load_text(text, {"train.steps=5"});
  EXPECT_EQ(trial.config.train.warmup_steps, 1);
  ASSERT_EQ(trial.warnings.size(), 1U);
  EXPECT_NE(trial.warnings[0].find(
                "run.toml:5:1: train.warmup_steps = 40 is for a run of 520 steps; with train.steps = 5 (command line) it is 1"),
            std::string::npos)
      << trial.warnings[0];
  EXPECT_NE(trial.settings.at("train.warmup_steps").origin.place.find("run.toml:5:1, shortened for train.steps = 5"), std::string::npos);
  EXPECT_EQ(load_text(text, {"train.steps=41"}).config.train.warmup_steps, 40) << "it fits";
  EXPECT_EQ(load_text(text, {"train.steps=40"}).config.train.warmup_steps, 4) << "the rate would never fall";
  // Warm-up and decay share the steps.
  const auto decay = load_text(text + "decay = \"wsd\"\ndecay_steps = 60\n", {"train.steps=20"});
  EXPECT_EQ(decay.config.train.decay_steps, 2);
  EXPECT_EQ(decay.config.train.warmup_steps, 2);
  const auto single = load_text(text + "decay = \"wsd\"\ndecay_steps = 60\n", {"train.steps=1"});
  EXPECT_EQ(single.config.train.decay_steps, 1);
  EXPECT_EQ(single.config.train.warmup_steps, 0);
  // What is given beside the steps is taken as it is.
  expect_error(
      [&] {
        (void)load_text(text, {"train.steps=5", "train.warmup_steps=6"});
      },
      ExitCode::config, {"train.warmup_steps = 6, expected at most train.steps = 5"});
  expect_error([&] { (void)load_text(text, {"train.steps=50", "train.schedule_steps=5"}); }, ExitCode::config, {"train.warmup_steps = 40"});
}

TEST(Load, APlanIsTheLastOfTheFiles) {
  const TemporaryFolder folder;
  const auto plan = folder.write("plan.toml",
                                 "[pipeline]\nranks = 2\nchunks = 2\nschedule = \"zb-v\"\nlayout = \"E t | t | t | t H\"\n"
                                 "[rematerialize]\npolicy = [\"full\"]\n");
  auto request = request_for(folder.write("a.toml", std::string(small_run) + "pipeline.ranks = 4\npipeline.plan = \"" + plan + "\"\n"));
  request.overrides = {"rematerialize.policy=minimal"};
  const LoadedRun run = load(request);
  EXPECT_EQ(run.config.pipeline.ranks, 2);
  EXPECT_EQ(run.config.pipeline.schedule, "zb-v");
  EXPECT_EQ(run.config.pipeline.layout, "E t | t | t | t H");
  EXPECT_EQ(run.config.pipeline.plan, "");
  EXPECT_EQ(run.config.rematerialize.policy, std::vector<std::string>{"minimal"}) << "the command line comes last";
  EXPECT_EQ(run.settings.at("pipeline.schedule").origin.place, plan + ":4:1");
  EXPECT_TRUE(run.warnings.empty());
  const auto refused = [&](const std::string& file, const std::vector<std::string>& parts) {
    request.overrides = {"pipeline.plan=" + file};
    expect_error([&] { (void)load(request); }, ExitCode::config, parts);
  };
  refused(folder.write("wrong.toml", "[pipeline]\nlayuot = \"E t | t H\"\n"), {"wrong.toml:2", "pipeline.layout"});
  refused(folder.write("two.toml", "pipeline.plan = \"plan.toml\"\n"), {"two.toml", "another plan, plan.toml"});
  refused(folder / "none.toml", {"none.toml"});
}

TEST(Load, ReadsEveryKindOfValue) {
  const LoadedRun run = load_text(
      "device = \"cpu\"\n[model]\npreset = 'tiny'\ntie_word_embeddings = true\n[data]\ntext = ['a', \"b c\"]\npacking = false\n"
      "[train]\nlearning_rate = 1\nclip = 0.5\nsteps = 1_000\n");
  EXPECT_EQ(run.config.data.text, (std::vector<std::string>{"a", "b c"}));
  EXPECT_FALSE(run.config.data.packing);
  EXPECT_TRUE(run.config.model.tie_word_embeddings);
  EXPECT_EQ(run.config.train.learning_rate, 1.0);  // an integer is a number
  EXPECT_EQ(run.config.train.clip, 0.5);
  EXPECT_EQ(run.config.train.steps, 1000);
}

TEST(Load, OverridesNeedNoQuotes) {
  const LoadedRun run =
      load_text(small_run, {"data.text=one,two", "pipeline.schedule=zb-h1", "pipeline.ranks=2", "train.learning_rate=2e-3", "train.clip=0",
                            "data.packing=false", "pipeline.layout=E t*2 | t*2 H", "sample.prompt=\"a\\tb\"", "sample.tokens=5",
                            "rematerialize.policy=[\"query_proj\", \"mlpwo\"]"});
  EXPECT_EQ(run.config.data.text, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(run.config.pipeline.schedule, "zb-h1");
  EXPECT_EQ(run.config.train.learning_rate, 2e-3);
  EXPECT_EQ(run.config.train.clip, 0.0);
  EXPECT_FALSE(run.config.data.packing);
  EXPECT_EQ(run.config.pipeline.layout, "E t*2 | t*2 H");
  EXPECT_EQ(run.config.sample.prompt, "a\tb");
  EXPECT_EQ(run.config.rematerialize.policy, (std::vector<std::string>{"query_proj", "mlpwo"}));
  // Values may contain equals signs; a list may be emptied again.
  const LoadedRun other = load_text(small_run, {"sample.prompt=x = 1", "data.text=", "data.tokens=a.bin"});
  EXPECT_EQ(other.config.sample.prompt, "x = 1");
  EXPECT_TRUE(other.config.data.text.empty());
}

TEST(Load, BlanksBesideCommasAreNoPartOfAPath) {
  EXPECT_EQ(load_text(small_run, {"data.text= one, two words ,three"}).config.data.text,
            (std::vector<std::string>{"one", "two words", "three"}));
}

TEST(Load, DerivesHeads) {
  const LoadedRun run =
      load_text("data.text = 'x'\n[model]\nvocab_size = 300\nhidden_size = 48\nintermediate_size = 64\nlayers = 2\nheads = 6\n");
  EXPECT_EQ(run.config.model.kv_heads, 6);
  EXPECT_EQ(run.config.model.head_dim, 8);
  EXPECT_EQ(std::get<std::int64_t>(run.settings.at("model.head_dim").value), 8);
}

TEST(Load, TakesTheModelFromAFolder) {
  const TemporaryFolder folder;
  LoadRequest request = request_for(folder.write("run.toml", "model.from = 'llama'\nmodel.layers = 3\ndata.text = 'x'\n"));
  request.read_model = [](const std::string& name) {
    EXPECT_EQ(name, "llama");
    layers::ModelConfig model;
    model.vocab_size = 1000;
    model.hidden_size = 64;
    model.intermediate_size = 96;
    model.layers = 8;
    model.heads = 4;
    model.kv_heads = 2;
    model.head_dim = 32;
    model.rope.kind = layers::RopeKind::llama3;
    model.rope.original_max_position = 16;
    model.family = "mixtral";
    model.experts = 4;
    model.experts_per_token = 2;
    return ModelFile{.model = model, .losses = {.z_loss = 0.25, .balance_loss = 0.125}, .warnings = {"strange is not known"}};
  };
  const LoadedRun run = load(request);
  EXPECT_EQ(run.config.model.vocab_size, 1000);
  EXPECT_EQ(run.config.model.head_dim, 32);
  EXPECT_EQ(run.config.model.rope.kind, layers::RopeKind::llama3);
  EXPECT_EQ(run.config.model.layers, 3);  // a key overrides the folder
  EXPECT_EQ(run.settings.at("model.hidden_size").origin.place, "llama/config.json");
  EXPECT_EQ(run.config.train.z_loss, 0.25);
  EXPECT_EQ(run.config.train.balance_loss, 0.125);
  for (const char* key : {"train.z_loss", "train.balance_loss"}) EXPECT_EQ(run.settings.at(key).origin.place, "llama/config.json");
  EXPECT_EQ(run.model_warnings, std::vector<std::string>{"strange is not known"});
  request.overrides = {"train.z_loss=0.5", "train.balance_loss=0"};
  const LoadedRun other = load(request);
  EXPECT_EQ(other.config.train.z_loss, 0.5);
  ASSERT_EQ(other.model_warnings.size(), 3u);
  EXPECT_EQ(other.model_warnings[2],
            "command line: train.balance_loss = 0.0 overrides load_balance_loss_weight = 0.125 in llama/config.json");
  EXPECT_EQ(other.model_warnings[1], "command line: train.z_loss = 0.5 overrides z_loss_multiplier = 0.25 in llama/config.json");
}

TEST(Load, AnIncompleteRunCanBeLookedAt) {
  LoadRequest request;
  request.complete = false;
  EXPECT_EQ(load(request).config.train.steps, runtime::TrainConfig().steps);
  request.complete = true;
  expect_error([&] { (void)load(request); }, ExitCode::config, {"neither data.text nor data.tokens"});
}

struct BadFile {
  const char* name;
  const char* lines;  // appended to the two of small_run
  std::vector<std::string> says;
};

TEST(Load, ASectionMayBeEmpty) {
  const TemporaryFolder folder;
  const LoadedRun run = load(request_for(folder.write("run.toml", std::string(small_run) + "[mesh]\n[run]\n# directory = \"runs/a\"\n")));
  EXPECT_FALSE(run.given("mesh.expert"));
}

TEST(Load, RefusesBadFilesWithTheirPlace) {
  const std::vector<BadFile> table = {
      {"unknown key", "[train]\nstpes = 3", {"run.toml:4:1", "unknown key train.stpes", "did you mean train.steps?"}},
      {"unknown section", "[trian]\nsteps = 3", {"run.toml:4:1", "unknown key trian.steps", "did you mean train.steps?"}},
      {"empty unknown section", "[nothing]", {"run.toml:3:2", "unknown key nothing"}},
      {"key without its section", "steps = 3", {"run.toml:3:1", "unknown key steps", "did you mean train.steps?"}},
      {"dotted", "train . seeed = 1", {"run.toml:3:9", "train.seeed", "train.seed"}},
      {"string for integer",
       "[train]\n  steps = 'many'",
       {"run.toml:4:3", "train.steps = 'many', expected an integer from 1 to 1000000000 (steps)"}},
      {"float for integer", "train.steps = 3.0", {"run.toml:3", "train.steps = 3.0, expected an integer"}},
      {"string for number", "train.clip = '1'", {"run.toml:3", "train.clip = '1', expected a number from 0"}},
      {"integer for boolean", "data.packing = 1", {"data.packing = 1, expected true or false"}},
      {"integer for string", "run.directory = 7", {"run.directory = 7, expected a string"}},
      {"integer in a list", "data.suffixes = ['a', 1]", {"run.toml:3", "data.suffixes", "expected a string or a list of strings"}},
      {"table for integer", "[train.steps]\nx = 1", {"run.toml:3", "train.steps", "expected an integer"}},
      {"array of tables", "[[train]]\nsteps = 1", {"run.toml:3", "expected a section: [train], and its keys below it"}},
      {"below", "train.steps = 0", {"run.toml:3", "train.steps = 0, expected an integer from 1"}},
      {"above", "train.beta1 = 1.0", {"train.beta1 = 1.0, expected a number from 0 to 0.999999999"}},
      {"negative", "train.weight_decay = -0.1", {"train.weight_decay = -0.1"}},
      {"not a number", "train.learning_rate = nan", {"train.learning_rate = nan, expected a number"}},
      {"infinite", "train.clip = inf", {"train.clip = inf, expected a number"}},
      {"choice", "pipeline.schedule = '1f1v'", {"pipeline.schedule = '1f1v', expected one of gpipe, 1f1b", "did you mean 1f1b?"}},
      {"choice of dtype", "train.dtype = 'fp16'", {"train.dtype = 'fp16', expected one of fp32, bf16"}},
      {"choice in a list", "rematerialize.policy = ['qery_proj']", {"rematerialize.policy", "query_proj"}},
      {"twice", "train.steps = 1\ntrain.steps = 2", {"run.toml:4", "steps"}},
      {"syntax", "train.steps = ", {"run.toml:3"}},
      {"unclosed", "[train", {"run.toml:3"}},
      {"beyond 64 bits", "train.seed = 9223372036854775808", {"run.toml:3"}},
      {"bad utf-8", "sample.prompt = '\xff'", {"run.toml:3"}},
  };
  for (const BadFile& bad : table) {
    SCOPED_TRACE(bad.name);
    expect_error([&] { (void)load_text(std::string(small_run) + bad.lines + "\n"); }, ExitCode::config, bad.says);
  }
}

TEST(Load, RefusesNamesOfVeryManyParts) {
  std::string name = "a";
  for (int i = 0; i < 40000; ++i) name += ".a";
  for (const auto& line : {name + " = 1", "[" + name + "]", "train = {" + name + " = 1}"})
    expect_error([&] { (void)load_text(std::string(small_run) + line + "\n"); }, ExitCode::config, {"run.toml:3", "more than 1000 parts"});
  expect_error([&] { (void)load_text(small_run, {"train.steps={" + name + "=1}"}); }, ExitCode::config, {"more than 1000 parts"});
  const std::string dots(2000, '.');
  EXPECT_EQ(load_text(std::string(small_run) + "sample.prompt = \"" + dots + "\"  # " + dots + "\n").config.sample.prompt, dots);
}

TEST(Load, RefusesBadOverrides) {
  const auto with = [](const char* override_text) { return [=] { (void)load_text(small_run, {override_text}); }; };
  expect_error(with("train.stpes=3"), ExitCode::config, {"command line", "unknown key train.stpes", "did you mean train.steps?"});
  expect_error(with("train.steps"), ExitCode::usage, {"train.steps, expected key=value"});
  expect_error(with("train.steps=many"), ExitCode::config, {"command line: train.steps = many, expected an integer"});
  expect_error(with("train.steps="), ExitCode::config, {"command line: train.steps = (empty), expected an integer"});
  expect_error(with("train.steps=0"), ExitCode::config, {"train.steps = 0, expected an integer from 1"});
  expect_error(with("train.steps=5\ntrain.seed=6"), ExitCode::config, {"train.steps"});
  expect_error(with("train.steps=5 # five\n"), ExitCode::config, {"train.steps"});
  expect_error(with("data.packing=yes"), ExitCode::config, {"data.packing = yes, expected true or false"});
  expect_error(with("pipeline.schedule=pipe"), ExitCode::config, {"expected one of", "did you mean gpipe?"});
  expect_error(with("data.text=['a'"), ExitCode::config, {"data.text"});
}

TEST(Load, RefusesBadEnvironment) {
  const TemporaryFolder folder;
  LoadRequest request = request_for(folder.write("run.toml", small_run));
  request.environment = {"MILLRACE_TRAIN_STPES=3"};
  expect_error([&] { (void)load(request); }, ExitCode::config,
               {"unknown variable MILLRACE_TRAIN_STPES", "did you mean MILLRACE_TRAIN_STEPS?"});
  request.environment = {"MILLRACE_TRAIN_STEPS=x"};
  expect_error([&] { (void)load(request); }, ExitCode::config, {"environment MILLRACE_TRAIN_STEPS: train.steps = x"});
  // Environment variables for other purposes are not keys.
  request.environment = {"MILLRACE_VERBOSE=1", "MILLRACES=2", "MILLRACE"};
  EXPECT_EQ(load(request).config.train.steps, runtime::TrainConfig().steps);
}

TEST(Load, RefusesFilesThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_error([&] { (void)load(request_for(folder / "nothing.toml")); }, ExitCode::config, {"nothing.toml", "cannot be read"});
  expect_error([&] { (void)load(request_for(folder.path().string())); }, ExitCode::config, {"cannot be read: not a regular file"});
}

/// The messages are ours, with the place and the line of the file.
TEST(Load, SaysWhatIsNotTomlInItsOwnWords) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    try {
      (void)load_text(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      for (const auto& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("Error while parsing"), std::string::npos) << error.what();
    }
  };
  refused("[model]\npreset = tiny\n", {":2:", "`preset = tiny`: no value, expected text in quotes"});
  refused("[model]\npreset = nano\n", {":2:", "`preset = nano`: found 'o', expected the end of the value", "text stands in quotes"});
  refused("[train]\nsteps = = 3\n", {":2:9: `steps = = 3`: no value, expected text in quotes, a number"});
  refused("[train\nsteps = 3\n", {":1:", "`[train`: found the end of the line, expected ']'"});
  refused("[train]\nsteps = 3\n[data]\n[train]\nbatch = 2\n", {":4:", "the section [train] is there twice"});
  refused("[train]\nsteps = 3\nsteps = 4\n", {":3:", "steps is given twice, expected once"});
  refused("[data]\ntext = \"a\n", {":2:", "a text without its closing quote"});
  refused("[train]\nsteps = 99999999999999999999\n", {"99999999999999999999 does not fit into 64 bits"});
  refused("\xff\xfe", {":1:1: not UTF-8, expected a text file"});
  refused("train = 3\n", {":1:1: train = 3, expected a section: [train], and its keys below it"});
}

TEST(Load, AcceptsAListWhoseQuotesAShellHasRemoved) {
  const auto text = [](const std::string& value) { return load_text(small_run, {"data.text=" + value}).config.data.text; };
  using List = std::vector<std::string>;
  EXPECT_EQ(text("[a, b/c]"), (List{"a", "b/c"}));
  EXPECT_EQ(text("[a]"), (List{"a"}));
  EXPECT_EQ(text("[\"a\", \"b,c\"]"), (List{"a", "b,c"}));
  EXPECT_EQ(text("a,b"), (List{"a", "b"}));
  for (const char* bad : {"[a", "[\"a]", "[[a]]", "[a] x"})
    expect_error(
        [&] { (void)text(bad); }, ExitCode::config,
        {"command line: data.text = " + std::string(bad), "(a shell removes quotes: data.text=a,b or 'data.text=[\"a\", \"b\"]')"});
}

TEST(Load, SurvivesAnyBytes) {
  // Every prefix of a real file, and every file with one byte changed, gives either a run or a clear error.
  const std::string text = std::string(small_run) + "[train]\nsteps = 10\nlearning_rate = 1e-3\n[pipeline]\nlayout = \"E t*4 H\"\n";
  int loaded = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      (void)load_text(bytes);
      ++loaded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::config) << error.what();
      ++refused;
    }
  };
  for (std::size_t size = 0; size <= text.size(); ++size) attempt(text.substr(0, size));
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'\0', '[', '\n', '\xff'}) {
      std::string changed = text;
      changed[at] = byte;
      attempt(changed);
    }
  }
  EXPECT_GT(loaded, 20);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace millrace::configs
