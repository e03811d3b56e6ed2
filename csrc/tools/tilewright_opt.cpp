// tilewright-opt: runs passes over graphs in text form, for tests and for reading what a pass does.
//
//   tilewright-opt --pass=fold_views,decompose graphs.tw
//
// The file may hold several graphs. Each is parsed, verified, rewritten by every pass in turn with a check after each,
// and printed.
#include <CLI/CLI.hpp>

#include "tools/graph_files.h"

namespace tilewright::tools {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Runs passes over graphs in text form and prints the result.");
  std::vector<std::string> pass_names, option_texts;
  std::string path, target = "sim:sm_90a";
  bool no_locations = false, list = false;
  app.add_option("--pass", pass_names, "passes, in the order in which they run")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--option", option_texts, "name=value of an option of compiling")->allow_extra_args(false);
  app.add_option("--target", target, "what to compile for")->capture_default_str();
  app.add_flag("--no-locations", no_locations, "leave locations out of the result");
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
    run_passes(graph, passes, ctx);
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
