// tilewright-opt: runs passes over graphs in text form, for tests and for reading what a pass does.
//
//   tilewright-opt --pass=fold_views,decompose graphs.tw
//   tilewright-opt --reduce='tilewright-run --against=interp {}' graph.tw      the smallest graph for which the command
//   fails
//   tilewright-opt --partition --option kernels=auto graph.tw      what becomes of it: kernels, calls, decisions
//
// The file may hold several graphs. Each is parsed, verified, rewritten by every pass in turn with a check after each,
// and printed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "fusion/partition.h"
#include "ir/reduce.h"
#include "passes/passes.h"
#include "tools/graph_files.h"

namespace tilewright::tools {
namespace {

// A file of its own that goes with the object.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "tilewright-reduce-XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) throw UserError("cannot make a file like " + path_);
    close(file);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether the command, with {} for a file of the graph, gives an exit status other than 0.
bool command_fails(std::string command, const Graph& graph) {
  const TemporaryFile file;
  std::ofstream(file.path()) << print(graph);
  for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += file.path().size()) {
    command.replace(at, 2, file.path());
  }
  return std::system(("(" + command + ") > /dev/null 2>&1").c_str()) != 0;
}

Graph reduced(const Graph& graph, const std::string& command) {
  if (command.find("{}") == std::string::npos) throw UserError("the command of --reduce has no {} for the file");
  const auto still_fails = [&](const Graph& g) { return command_fails(command, g); };
  if (!still_fails(graph)) throw UserError("@" + graph.name() + ": the command does not fail");
  return reduce(graph, still_fails);
}

// The partition of a graph as it is imported, after the pipeline's passes.
std::string partition_text(Graph graph, const Context& ctx) {
  Graph source = graph.clone();
  CallReasons reasons;
  for (const GraphPass& pass : graph_passes()) {
    if (pass.name == std::string_view("decompose")) {
      source = graph.clone();
      for (const Refusal& refusal : decompose_with_reasons(graph, ctx)) reasons[refusal.node] = refusal.reason;
    } else {
      pass.run(graph, ctx);
    }
    check_valid(graph, std::string("after ") + pass.name);
  }
  return print(partition(graph, source, ctx, propose, reasons));
}

int run(int argc, char** argv) {
  CLI::App app("Runs passes over graphs in text form and prints the result.");
  std::vector<std::string> pass_names, option_texts;
  std::string path, target = "sim:sm_90a", reduce_command;
  bool no_locations = false, list = false, partitions = false;
  app.add_option("--pass", pass_names, "passes, in the order in which they run")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--option", option_texts, "name=value of an option of compiling")->allow_extra_args(false);
  app.add_option("--target", target, "what to compile for")->capture_default_str();
  app.add_option("--reduce", reduce_command, "shrink the graph while this command, with {} for its file, fails");
  app.add_flag("--no-locations", no_locations, "leave locations out of the result");
  app.add_flag("--partition", partitions, "run the pipeline's passes and print the partition into kernels and calls");
  app.add_flag("--list-passes", list, "print the names of the passes in the pipeline's order");
  app.add_option("file", path, "graph text; - is standard input");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const GraphPass& pass : graph_passes()) std::cout << pass.name << '\n';
    return 0;
  }
  if (path.empty()) throw UserError("no file given");

  const Context ctx = make_context(options_of(option_texts, target), "cpu");
  const std::vector<const GraphPass*> passes = passes_of(pass_names);
  bool first = true;
  for (Graph& graph : parse_graphs(read_input(path), path)) {
    check_valid(graph, "as read");
    if (partitions) {
      std::cout << (first ? "" : "\n") << "@" << graph.name() << "\n";
      std::cout << partition_text(std::move(graph), ctx);
      first = false;
      continue;
    }
    run_passes(graph, passes, ctx);
    if (!reduce_command.empty()) graph = reduced(graph, reduce_command);
    std::cout << (first ? "" : "\n") << print(graph, {.locations = !no_locations});
    first = false;
  }
  return 0;
}

}  // namespace
}  // namespace tilewright::tools

int main(int argc, char** argv) {
  return tilewright::tools::guarded("tilewright-opt", tilewright::tools::run, argc, argv);
}
