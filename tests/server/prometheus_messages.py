"""Prometheus' messages as others read them: by the protobuf library, from a description of their own."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "double": _Field.TYPE_DOUBLE,
    "uint64": _Field.TYPE_UINT64,
    "uint32": _Field.TYPE_UINT32,
    "int32": _Field.TYPE_INT32,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
}
_PACKAGE = "dray.tests.prometheus"
_MESSAGES = {
    "LabelPair": "name=1 string, value=2 string",
    "Value": "value=1 double",
    "Quantile": "quantile=1 double, value=2 double",
    "Summary": "sample_count=1 uint64, sample_sum=2 double, quantile=3 []Quantile",
    "Bucket": "cumulative_count=1 uint64, upper_bound=2 double",
    "BucketSpan": "offset=1 sint32, length=2 uint32",
    "Histogram": (
        "sample_count=1 uint64, sample_sum=2 double, bucket=3 []Bucket, schema=5 sint32, zero_threshold=6 double, "
        "zero_count=7 uint64, positive_span=12 []BucketSpan, positive_delta=13 []sint64"
    ),
    "Metric": (
        "label=1 []LabelPair, gauge=2 Value, counter=3 Value, summary=4 Summary, untyped=5 Value, histogram=7 Histogram"
    ),
    "MetricFamily": "name=1 string, help=2 string, type=3 int32, metric=4 []Metric",
}


def _family_class():
    file = descriptor_pb2.FileDescriptorProto(name="prometheus.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            (member, number), kind = field.split(" ")[0].split("="), field.split(" ")[1]
            item = kind.removeprefix("[]")
            label = _Field.LABEL_REPEATED if kind != item else _Field.LABEL_OPTIONAL
            added = message.field.add(name=member, number=int(number), label=label)
            if item in _SCALARS:
                added.type = _SCALARS[item]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{item}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


MetricFamily = _family_class()


def read(body):
    """The families of an answer, each of which stands after its length."""
    found, at = [], 0
    while at < len(body):
        size = shift = 0
        while True:
            byte, at = body[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        found.append(MetricFamily.FromString(body[at : at + size]))
        assert not found[-1].FindInitializationErrors()
        at += size
    return found
