# The folders of the core, in layer order: a folder may include only folders that stand in an earlier layer.
# test/core/layers_test checks this table against the #include lines.
set(TILEWRIGHT_LAYERS
  "support:0"
  "symbolic:1" "target:1" "layout:1" "simulator:1"
  "ir:2"
  "cost:3" "passes:3" "runtime:3"
  "schedule:4"
  "fusion:5"
  "codegen:6"
  "compiler:7")
set(TILEWRIGHT_FOLDERS)
foreach(row ${TILEWRIGHT_LAYERS})
  string(REGEX REPLACE ":.*" "" name ${row})
  list(APPEND TILEWRIGHT_FOLDERS ${name})
endforeach()
