// tilewright-run: runs graphs in text form on random inputs and compares two ways of running them.
//
//   tilewright-run --against=interp --size s0=7 graphs.tw       compiled and simulated, against the interpreter
//   tilewright-run --with=interp --against=interp --pass=fold_casts graphs.tw       after the pass, against before it
//   tilewright-run --with=exact --against=interp graphs.tw      how much eager's rounding changes
//   tilewright-run --with=interp --print graphs.tw              prints the outputs
//   tilewright-run --random=0:500 --nodes=14 --against=interp       generated graphs, seeds 0 to 499, with their own
//   tolerances
//
// `--pass` rewrites what `--with` runs; `--against` always runs the graph as read. Exit status 1: outputs differ.
#include <CLI/CLI.hpp>
#include <cstdlib>

#include "compiler/simulate.h"
#include "ir/random_graph.h"
#include "tools/graph_files.h"

namespace tilewright::tools {
namespace {

struct Settings {
  std::vector<std::string> pass_names, option_texts, size_texts;
  std::string path, with = "sim:sm_90a", against, random;
  int nodes = 12;
  uint64_t seed = 1;
  double relative = -1, absolute = -1;
  bool print = false;
};

using Sizes = std::map<std::string, int64_t>;

// Values of the graph's symbols: its hints, but where the command line says otherwise.
Sizes sizes_of(const Graph& graph, const std::vector<std::string>& texts) {
  Sizes sizes;
  for (const Symbol& symbol : graph.symbols().symbols()) sizes[symbol.name] = symbol.hint;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) throw UserError("size '" + text + "' is not symbol=number");
    const Expr value = parse_expr(text.substr(equals + 1));
    const std::string name = text.substr(0, equals);
    if (!value.constant()) throw UserError("size '" + text + "' is not symbol=number");
    if (sizes.count(name)) sizes[name] = *value.constant();
  }
  return sizes;
}

std::vector<InterpValue> run_graph(const Graph& graph, const std::string& how, const Settings& settings,
                                   const std::vector<InterpValue>& inputs, const Sizes& sizes) {
  if (how == "interp" || how == "exact") {
    const InterpMode mode = how == "exact" ? InterpMode::kExact : InterpMode::kEager;
    return interpret(graph, inputs, {.mode = mode, .symbols = sizes, .call = nullptr});
  }
  const Context ctx = make_context(options_of(settings.option_texts, how), "cpu");
  return simulate(*compile_graph(print(graph), ctx), how.substr(how.find(':') + 1), inputs, sizes).outputs;
}

// Two units in the last place an operator that is not exact, over the whole graph: enough for tests that look for wrong
// results, not for measuring accuracy.
Tolerance tolerance_for(const Graph& graph, const HostTensor& expected, const Settings& settings) {
  Tolerance tolerance = rounding_tolerance(expected.dtype);
  double largest = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    if (std::isfinite(expected.number(i))) largest = std::max(largest, std::fabs(expected.number(i)));
  }
  const auto operators = static_cast<double>(graph.size());
  tolerance.absolute += operators * tolerance.relative * largest;
  if (settings.relative >= 0) tolerance.relative = settings.relative;
  if (settings.absolute >= 0 || settings.relative >= 0) tolerance.absolute = std::max(settings.absolute, 0.0);
  return tolerance;
}

void print_value(std::ostream& out, const InterpValue& value) {
  if (const auto* tensor = std::get_if<InterpValue::Tensor>(&value.data)) {
    const HostTensor& t = **tensor;
    std::vector<Expr> shape(t.shape.begin(), t.shape.end());
    out << Type::tensor(t.dtype, shape) << " = [";
    constexpr int64_t kShown = 64;
    for (int64_t i = 0; i < std::min(t.numel(), kShown); ++i) out << (i ? ", " : "") << t.number(i);
    out << (t.numel() > kShown ? ", ...]" : "]");
  } else if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    out << *whole;
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    out << *number;
  } else if (const auto* flag = std::get_if<bool>(&value.data)) {
    out << (*flag ? "true" : "false");
  } else {
    out << "no tensor or number";
  }
}

// Whether the outputs are alike; prints one line an output that is not.
bool compare(const Graph& graph, const std::vector<InterpValue>& found, const std::vector<InterpValue>& expected,
             const Settings& settings) {
  bool alike = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto* tensor = std::get_if<InterpValue::Tensor>(&expected[i].data);
    if (!tensor) continue;
    const Verdict verdict = all_close(found.at(i).tensor(), **tensor, tolerance_for(graph, **tensor, settings));
    if (verdict) continue;
    std::cout << "@" << graph.name() << " output " << i << ": " << verdict.why_not << '\n';
    alike = false;
  }
  return alike;
}

bool run_one(Graph& graph, const std::vector<const GraphPass*>& passes, const Settings& settings) {
  check_valid(graph, "as read");
  const Sizes sizes = sizes_of(graph, settings.size_texts);
  const std::vector<InterpValue> inputs = random_inputs(graph, sizes, settings.seed);
  Graph rewritten = graph.clone();
  const std::string pass_target = settings.with.rfind("sim:", 0) == 0 ? settings.with : "sim:sm_90a";
  run_passes(rewritten, passes, make_context(options_of(settings.option_texts, pass_target), "cpu"));
  const std::vector<InterpValue> found = run_graph(rewritten, settings.with, settings, inputs, sizes);
  if (settings.print) {
    for (size_t i = 0; i < found.size(); ++i) {
      std::cout << "@" << graph.name() << " output " << i << ": ";
      print_value(std::cout, found[i]);
      std::cout << '\n';
    }
  }
  if (settings.against.empty()) return true;
  return compare(graph, found, run_graph(graph, settings.against, settings, inputs, sizes), settings);
}

// Whether the graph of one seed gives the same both ways; prints the graph where it does not.
bool run_random(uint64_t seed, const std::vector<const GraphPass*>& passes, const Settings& settings) {
  RandomGraph random = random_graph(seed, {.nodes = settings.nodes});
  const std::string as_generated = print(random.graph);
  try {
    const std::vector<InterpValue> inputs = random_inputs(random.graph, random.sizes, settings.seed);
    const auto expected = run_graph(random.graph, settings.against, settings, inputs, random.sizes);
    run_passes(random.graph, passes, make_context(options_of(settings.option_texts, "sim:sm_90a"), "cpu"));
    const auto found = run_graph(random.graph, settings.with, settings, inputs, random.sizes);
    for (size_t i = 0; i < expected.size(); ++i) {
      const Verdict verdict = all_close(found[i].tensor(), expected[i].tensor(), {0, random.output_errors[i]});
      if (!verdict) throw UserError("output " + std::to_string(i) + ": " + verdict.why_not);
    }
    return true;
  } catch (const std::exception& error) {
    std::cout << "seed " << seed << ": " << error.what() << '\n' << as_generated;
    return false;
  }
}

// "first:count" seeds.
bool run_randoms(const std::vector<const GraphPass*>& passes, const Settings& settings) {
  const size_t colon = settings.random.find(':');
  const auto number = [&](const std::string& text) {
    const auto value = parse_expr(text).constant();
    if (colon == std::string::npos || !value) throw UserError("random '" + settings.random + "' is not first:count");
    return *value;
  };
  const int64_t first = number(settings.random.substr(0, colon)), count = number(settings.random.substr(colon + 1));
  int failed = 0;
  for (int64_t i = 0; i < count; ++i) failed += run_random(static_cast<uint64_t>(first + i), passes, settings) ? 0 : 1;
  std::cout << failed << " of " << count << " graphs differ\n";
  return failed == 0;
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Runs graphs in text form on random inputs and compares two ways of running them.");
  const std::string ways = "interp (eager's rounding), exact (float64), sim:sm_80, sim:sm_86, sim:sm_89 or sim:sm_90a";
  app.add_option("--with", settings.with, ways)->capture_default_str();
  app.add_option("--against", settings.against, "compare with: " + ways);
  app.add_option("--pass", settings.pass_names, "passes over what --with runs, in order")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--size", settings.size_texts, "symbol=number; the others have their hints")->allow_extra_args(false);
  app.add_option("--option", settings.option_texts, "name=value of an option of compiling")->allow_extra_args(false);
  app.add_option("--seed", settings.seed, "of the random inputs")->capture_default_str();
  app.add_option("--rtol", settings.relative, "relative tolerance; default: by element type and number of operators");
  app.add_option("--atol", settings.absolute, "absolute tolerance");
  app.add_flag("--print", settings.print, "print the outputs");
  app.add_option("--random", settings.random, "first:count seeds of generated graphs, in place of a file");
  app.add_option("--nodes", settings.nodes, "about as many nodes has a generated graph")->capture_default_str();
  app.add_option("file", settings.path, "graph text; - is standard input");
  CLI11_PARSE(app, argc, argv);

  const std::vector<const GraphPass*> passes = passes_of(settings.pass_names);
  if (!settings.random.empty()) {
    if (settings.against.empty()) throw UserError("--random needs --against");
    return run_randoms(passes, settings) ? 0 : 1;
  }
  if (settings.path.empty()) throw UserError("no file given");
  bool alike = true;
  for (Graph& graph : parse_graphs(read_input(settings.path), settings.path)) {
    alike = run_one(graph, passes, settings) && alike;
  }
  return alike ? 0 : 1;
}

}  // namespace
}  // namespace tilewright::tools

int main(int argc, char** argv) {
  return tilewright::tools::guarded("tilewright-run", tilewright::tools::run, argc, argv);
}
